"""A torch that lacks a private part that we observe it by: an error that names both, and never a hook that is skipped in silence."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from children import executor
from torch._dynamo import convert_frame, symbolic_convert

from minimizer import doctor
from minimizer.errors import MissingTool
from minimizer.inside import hooks
from minimizer.inside.compiler import caches
from minimizer.inside.compiler.backend_place import take_place
from minimizer.inside.compiler.entries import at_entries
from minimizer.inside.compiler.subsystems import Switchboard
from minimizer.inside.exact.checkpointed import draw_again
from minimizer.inside.exact.stances import Forced
from minimizer.inside.exact.translations import Translations
from minimizer.inside.exact.wrappers import Glances
from minimizer.inside.questions import Switches
from minimizer.inside.trace.surroundings import has_hooks_of_saved_tensors
from minimizer.inside.values.backwards import around_backwards
from minimizer.inside.watch.attempts import Attempts
from minimizer.inside.watch.changed_settings import ChangedSettings
from minimizer.inside.wire import Channel

CHANNEL = cast(Channel, None)


def glances() -> Glances:
    return Glances(lambda file: False, lambda frame: {}, ())


USES: dict[str, Callable[[], object]] = {
    "torch._dynamo.convert_frame:": lambda: Attempts(lambda: None),
    "torch._dynamo.symbolic_convert:": lambda: Translations().watch(),
    "torch._dynamo.repro.after_dynamo:": lambda: take_place(lambda *args: args[3]()),
    "torch._dynamo.eval_frame:_TorchDynamoContext": lambda: at_entries(lambda: lambda: None),
    "torch._dynamo.eval_frame:_set_stance": lambda: Forced(library=False),
    "torch._dynamo.eval_frame:_stance": lambda: Forced(library=False),
    "torch._dynamo.eval_frame:DynamoStance": lambda: Forced(library=False),
    "torch._dynamo.decorators:": lambda: Forced(library=False),
    "torch.compiler:": lambda: Forced(library=False),
    "torch._dynamo.eval_frame:OptimizedModule": lambda: glances().watch(),
    "torch.autograd": lambda: around_backwards(lambda run: run),
    "torch._C._autograd:": has_hooks_of_saved_tensors,
    "torch._higher_order_ops.wrap:": lambda: draw_again(lambda: False),
    "torch.utils._config_module:": lambda: caches.left_to_script().__enter__(),
    "torch._higher_order_ops.utils:": lambda: ChangedSettings().look(None),
    "torch._inductor.": lambda: Switchboard(Switches(), CHANNEL).install(),
    "torch.fx.passes.": lambda: Switchboard(Switches(), CHANNEL).install(),
}
"""What replaces or reads the parts that begin so."""
ASKED_AT_START = (
    "torch._dynamo.symbolic_convert:InstructionTranslator.current_tx",
    "torch._dynamo.output_graph:OutputGraph.torch_function_subclass_inlined",
    "torch._dynamo.utils:CompilationMetrics.recompile_reason",
    "torch._dynamo.utils:CompilationMetrics.stack_trace",
    "torch._inductor.pattern_matcher:PatternMatcherPass",
    "torch._C:_stash_obj_in_tls",
    "torch._C:_get_obj_in_tls",
    "torch._C:_is_key_in_tls",
    "torch._C._autograd:_pop_saved_tensors_default_hooks",
    "torch._C._autograd:_push_saved_tensors_default_hooks",
    "torch._C._autograd:_saved_tensors_hooks_get_disabled_error_message",
)
"""Parts that are read as they are: the zygote has asked for them."""
NEEDED = [name for names in hooks.NEEDED.values() for name in names]


def remove(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    """Let torch lack a part: a name, also where a class inherits it, or an attribute that its class sets in ``__init__``."""
    module, _, path = hook.partition(":")
    *classes, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in classes:
        owner = getattr(owner, part)
    for home in [base for base in owner.__mro__ if base is not object] if classes else [owner]:
        if name in vars(home):
            monkeypatch.delattr(home, name)
    if classes and name != "__init__":
        monkeypatch.setattr(owner, "__init__", lambda self: None)


def test_this_torch_lacks_nothing() -> None:
    assert hooks.lacks() == []
    assert hooks.absent(hooks.WISHED) == []


@pytest.mark.parametrize("hook", NEEDED)
def test_a_part_that_is_gone_is_named_with_the_version(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    remove(monkeypatch, hook)
    named = f"torch {torch.__version__} has no {hook.replace(':', '.')}, which "
    assert any(sentence.startswith(named) for sentence in hooks.lacks())


@pytest.mark.parametrize("hook", [hook for hook in NEEDED if hook not in ASKED_AT_START])
def test_what_replaces_it_does_not_go_on_without_it(monkeypatch: pytest.MonkeyPatch, hook: str) -> None:
    (use,) = (use for begin, use in USES.items() if hook.startswith(begin))
    remove(monkeypatch, hook)
    with pytest.raises(hooks.MissingHook, match=rf"torch \S+ has no {hook.replace(':', '.')}: "):
        use()


@pytest.mark.parametrize("hook", [name for names in hooks.WISHED.values() for name in names])
def test_what_only_costs_time_or_detail_is_told_and_needed_by_nobody(
    monkeypatch: pytest.MonkeyPatch, hook: str
) -> None:
    remove(monkeypatch, hook)
    assert len(hooks.absent(hooks.WISHED)) == 1
    assert hooks.lacks() == []


def test_another_form_is_named_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo's inlining as a plain function, and its question whether it compiles as one of C's."""
    inliner: Any = symbolic_convert.InliningInstructionTranslator
    monkeypatch.setattr(inliner, "inline_call", lambda *args: None)
    monkeypatch.setattr(torch.compiler, "is_compiling", torch._C._is_torch_function_enabled)
    assert [sentence.partition(", which ")[0].partition(" has ")[2] for sentence in hooks.lacks()] == [
        "torch._dynamo.symbolic_convert.InliningInstructionTranslator.inline_call in another form",
        "torch.compiler.is_compiling in another form",
    ]
    with pytest.raises(hooks.MissingHook, match="inline_call in another form"):
        Translations().watch()


def test_operators_that_torch_writes_otherwise_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its text alone the compiler names the decomposition that it asks for."""
    monkeypatch.setattr(torch._ops.OpOverload, "__repr__", lambda self: f"<{self}>")
    assert [sentence.partition(" writes ")[2] for sentence in hooks.lacks()] == [
        "an overload as <aten.relu.default>, where its name cannot be read"
    ]


def test_a_release_does_without_what_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = hooks.SINCE
    remove(monkeypatch, name)
    monkeypatch.setattr(torch, "__version__", "2.11.0+cpu")
    assert hooks.lacks() == []


def test_what_was_replaced_before_counts_as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two observers of one process replace the same function, one around the other."""
    monkeypatch.setattr(convert_frame, "_compile", convert_frame._compile)
    monkeypatch.setattr(convert_frame, "compile_frame", convert_frame.compile_frame)
    for _ in range(2):
        Attempts(lambda: None)
    assert hooks.lacks() == []


def site_without(folder: Path, statement: str) -> Path:
    """A folder whose ``sitecustomize.py`` takes something away from torch."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(statement)
    return folder


GONE = "import torch._dynamo.convert_frame as entry\ndel entry._compile, entry.compile_frame\n"


def test_no_script_is_run_by_a_torch_that_cannot_be_observed(tmp_path: Path) -> None:
    """Not "Dynamo was given no frame": nobody would have seen one."""
    site = site_without(tmp_path / "site", GONE)
    with pytest.raises(
        MissingTool, match=r"no torch\._dynamo\.convert_frame\._compile, .*compile_frame, .*2\.11 to 2\.15"
    ):
        executor(tmp_path / "scratch", site, env={"PYTHONPATH": str(site)})


def test_the_doctor_says_so_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(site_without(tmp_path / "site", GONE)))
    finding = doctor.check_hooks(Path(sys.executable))
    assert finding.ok is False
    assert "has no torch._dynamo.convert_frame._compile, which tells whether Dynamo was given a frame" in finding.detail
    assert finding.remedy
