"""Finds a workaround: changes to the user's script, the cheapest first, until the script passes with one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.diagnose.knobs import Turned
from minimizer.engine.diagnose.paste import (
    Pasted,
    disable_call,
    disable_equal_modules,
    disable_function,
    disable_module,
    is_method_of_a_module,
    other_backend,
    paste,
    set_again,
)
from minimizer.engine.diagnose.sets import kind_of
from minimizer.report.culprit import Culprit
from minimizer.report.model import Blame, Rung

NONE = (
    "None but switching the compiler off: the script fails with every other change that was tried "
    "(TORCHDYNAMO_DISABLE=1 runs it without the compiler)."
)
SLOW = 3
"""Least `Knob.cost` of a setting that slows down everything compiled."""


@dataclass(frozen=True)
class Change:
    """A change of the script; ``what``: its effect, in words."""

    pasted: Pasted
    what: str


@dataclass(frozen=True)
class Tried:
    """The result of the script with a change: whether it passes, and the number of graphs still compiled.

    None if uncounted.
    """

    passes: bool
    frames: int | None = 0


Try = Callable[[str], Tried]


def changes(
    text: str,
    *,
    culprit: Culprit,
    blame: Blame | None,
    flips: Sequence[Turned],
    ladder: Sequence[Rung],
    script: str,
) -> Iterator[Change]:
    """Changes that may help, by cost: a setting, a part of the compiler, one call, function or module, the narrower first, all equal modules.

    Then settings that slow everything down, and a backend that generates no code.
    """
    settings = sorted(flips, key=lambda turned: turned.knob.cost)
    yield from (_setting(text, turned) for turned in settings if turned.knob.cost < SLOW)
    if blame is not None and (code := _without(blame)):
        yield Change(paste(text, code), f"the compiler does without {blame.what}")
    line = culprit.source.line if culprit.source is not None and culprit.source.file == script else 0
    if line and (call := disable_call(text, line, culprit.ops)):
        yield Change(call, "the graph breaks there, and one call runs in eager")
    function = disable_function(text, line) if line else None
    is_whole = function is not None and is_method_of_a_module(text, line)
    if function is not None and not is_whole:
        yield Change(function, "one function runs in eager")
    if culprit.module and (one := disable_module(text, culprit.module)):
        yield Change(one, f"the module {culprit.module_name} runs in eager")
    if function is not None and is_whole:
        yield Change(function, "one function runs in eager")
    if culprit.instances is not None and (one := disable_equal_modules(text, culprit.module)):
        yield Change(one, f"{culprit.module_name} and the modules that are equal to it run in eager")
    yield from (_setting(text, turned) for turned in settings if turned.knob.cost >= SLOW)
    if any(rung.backend == "aot_eager" and rung.outcome == "passes" for rung in ladder):
        one = other_backend(text, "aot_eager")
        if one is not None:
            yield Change(one, "nothing is fused and no code is generated: about as fast as eager")


def _setting(text: str, turned: Turned) -> Change:
    is_of_compiler = turned.knob.name.startswith(("torch._inductor", "torch._dynamo", "torch._functorch"))
    reach = "all that is compiled" if is_of_compiler else "all that the script computes, in eager too"
    pasted = set_again(text, turned.knob.name, turned.line) or paste(text, turned.line)
    return Change(pasted, f"a setting that holds for {reach}")


def first_that_helps(candidates: Iterator[Change], try_: Try) -> Change | None:
    """The first change with which the script passes.

    A change that leaves nothing compiled does not count. An inserted statement may have made the text invalid
    (``if x: y = torch.compile(f)`` in one line).
    """
    for change in candidates:
        if not is_python(change.pasted.text):
            continue
        ended = try_(change.pasted.text)
        if ended.passes and ended.frames != 0:
            return change
    return None


def is_python(text: str) -> bool:
    """Whether a changed text is still a program."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _without(blame: Blame) -> str:
    """Statements that switch off the part to blame; empty if there are none for it."""
    lines: list[str] = []
    passes = []
    for item in blame.items:
        kind, _, name = item.partition("/")
        if kind == "decomposition":
            lines.append(f"torch._inductor.decomposition.decompositions.pop(torch.ops.{name}, None)")
        elif kind == "lowerings":
            lines.append(f"torch._inductor.lowering.make_fallback(torch.ops.{name}, warn=False, override_decomp=True)")
        elif kind == "fusion":
            lines.append("torch._inductor.config.max_fusion_size = 1")
        elif kind.endswith("_passes"):
            passes.append(name.partition(":")[0])
    if passes:
        lines.append(f'torch._inductor.config.disabled_passes = "{",".join(dict.fromkeys(passes))}"')
    modules = {"decomposition": "decomposition", "lowerings": "lowering"}
    imports = [f"import torch._inductor.{modules[k]}" for k in dict.fromkeys(map(kind_of, blame.items)) if k in modules]
    return "\n".join([*imports, *dict.fromkeys(lines)])
