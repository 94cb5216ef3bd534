"""Which settings are tried for a failure: those of its stage, those that its error names, those that its script has changed."""

from __future__ import annotations

import pytest

from minimizer.engine.diagnose.knobs import (
    AOT,
    DYNAMO,
    INDUCTOR,
    KNOBS,
    OTHER_GRAPHS,
    Turned,
    advised,
    default_of,
    groups,
    named_in,
    put_back,
    set_in,
    turned,
)
from minimizer.engine.diagnose.paste import set_again
from minimizer.engine.diagnose.workaround import changes
from minimizer.report.culprit import Culprit, Source
from minimizer.vocabulary import Stage

ALL = {knob.name: "False" for knob in KNOBS}


def configs(knobs: list[Turned]) -> list[str]:
    """The modules of settings in which knobs lie, in their order."""
    return list(dict.fromkeys(".".join(knob.knob.name.split(".")[:3]) for knob in knobs))


@pytest.mark.parametrize(
    ("stage", "tried"),
    [
        (Stage.DYNAMO, [DYNAMO]),
        (Stage.AOT_AUTOGRAD, [AOT, DYNAMO]),
        (Stage.DECOMPOSITION, [AOT, DYNAMO]),
        (Stage.CUSTOM_BACKEND, [DYNAMO, AOT]),
    ],
)
def test_what_runs_behind_the_failing_stage_is_not_tried(stage: Stage, tried: list[str]) -> None:
    assert configs(turned(ALL, "cpu", stage)) == tried


@pytest.mark.parametrize("stage", [Stage.UNKNOWN, None])
def test_for_a_stage_that_is_not_known_all_are_tried(stage: Stage | None) -> None:
    assert turned(ALL, "cpu", stage) == turned(ALL, "cpu")


@pytest.mark.parametrize("stage", [Stage.INDUCTOR, Stage.CUDAGRAPHS])
def test_for_the_last_stage_its_own_are_tried_and_those_that_give_it_another_graph(stage: Stage) -> None:
    tried = turned(ALL, "cpu", stage)
    assert configs(tried)[0] == INDUCTOR
    assert {knob.knob.name for knob in tried if knob.knob.name.startswith((AOT, DYNAMO))} == set(OTHER_GRAPHS)


@pytest.mark.parametrize(
    ("error", "setting", "value"),
    [
        ("or set torch._functorch.config.donated_buffer=False to disable it", f"{AOT}.donated_buffer", "False"),
        ("Consider setting donated_buffer=False.", f"{AOT}.donated_buffer", "False"),
        ("Set `torch._dynamo.config.capture_scalar_outputs = True`, or", f"{DYNAMO}.capture_scalar_outputs", "True"),
        ("disable torch._inductor.config.cpp.weight_prepack.", f"{INDUCTOR}.cpp.weight_prepack", "False"),
        ("torch._dynamo.config.recompile_limit=64 may help", f"{DYNAMO}.recompile_limit", "64"),
        ("a(dim=0, keepdim=True) " * 100 + "torch._functorch.config.cse", f"{AOT}.cse", "False"),
    ],
)
def test_what_an_error_names_is_tried_with_the_value_it_advises(error: str, setting: str, value: str) -> None:
    present = {f"{AOT}.donated_buffer": "True", f"{DYNAMO}.capture_scalar_outputs": "False", f"{AOT}.cse": "True",
               f"{INDUCTOR}.cpp.weight_prepack": "True", f"{DYNAMO}.recompile_limit": "8"}  # fmt: skip
    assert [(knob.knob.name, knob.value) for knob in advised(named_in(error), present)] == [(setting, value)]


@pytest.mark.parametrize(
    "error",
    [
        "it requires create_graph=False and retain_graph=False",
        "torch.compile(f, dynamic=True)",
        "torch._functorch.config.donated_buffer=True",
        "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = None",
        "",
    ],
    ids=["arguments", "an option", "as it is", "a planted fault", "nothing"],
)
def test_what_is_no_setting_or_has_that_value_is_not_tried(error: str) -> None:
    present = {f"{AOT}.donated_buffer": "True", f"{INDUCTOR}.cpp.inject_relu_bug_TESTING_ONLY": "'accuracy'"}
    assert advised(named_in(error), present) == []


SCRIPT = """\
import torch
import torch._functorch.config as settings
from torch._dynamo import config

settings.activation_memory_budget = 0.5
if True:
    config.guard_nn_modules = False
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
other = config.cache_size_limit
f = torch.compile(torch.sin)
"""


def test_what_the_script_has_changed_is_put_back_to_its_default() -> None:
    own = set_in(SCRIPT)
    assert own == [f"{AOT}.activation_memory_budget", f"{DYNAMO}.guard_nn_modules"], "and no fault that was planted"
    assert default_of(own[0]) == f"{AOT}._config['activation_memory_budget'].default"
    values = {default_of(own[0]): "1.0", default_of(own[1]): "<function f at 0x7f>"}
    (back,) = put_back(own, values)
    assert back.line == f"{AOT}.activation_memory_budget = 1.0"


def test_a_setting_of_the_script_is_put_back_behind_the_line_that_changes_it() -> None:
    pasted = set_again(SCRIPT, f"{DYNAMO}.guard_nn_modules", f"{DYNAMO}.guard_nn_modules = True")
    assert pasted is not None
    assert f"    config.guard_nn_modules = False\n    {DYNAMO}.guard_nn_modules = True\n" in pasted.text
    assert set_again(SCRIPT, f"{AOT}.cse", f"{AOT}.cse = False") is None
    (back,) = put_back([f"{AOT}.activation_memory_budget"], {default_of(f"{AOT}.activation_memory_budget"): "1.0"})
    first = next(changes(SCRIPT, culprit=Culprit(), blame=None, flips=[back], ladder=[], script="a.py"))
    assert f"settings.activation_memory_budget = 0.5\n{back.line}\n" in first.pasted.text


def test_what_was_read_comes_behind_the_first_settings_of_the_stage_and_is_tried_by_itself() -> None:
    read = advised({f"{AOT}.joint_custom_pass": "None"}, {f"{AOT}.joint_custom_pass": "1"})
    lines = groups([*turned(ALL, "cpu"), *read])
    assert lines[1] == (read[0].line,)
    assert all(line.startswith(INDUCTOR) for line in lines[0])


NESTED = """\
import torch

def gate(x):
    return x.relu()

class Net(torch.nn.Module):
    def forward(self, x):
        return gate(x) + 1

model = torch.compile(Net())
"""


@pytest.mark.parametrize(("line", "order"), [(4, ["function", "module"]), (8, ["module", "function"])])
def test_the_function_that_fails_is_narrower_than_its_module_and_a_forward_is_not(line: int, order: list[str]) -> None:
    culprit = Culprit(module="act", source=Source(file="a.py", line=line))
    found = changes(NESTED, culprit=culprit, blame=None, flips=[], ladder=[], script="a.py")
    assert ["function" if "@torch" in change.pasted.code else "module" for change in found] == order


def test_a_call_is_narrower_than_the_function_around_it() -> None:
    culprit = Culprit(ops=["aten.relu"], source=Source(file="a.py", line=4))
    found = changes(NESTED, culprit=culprit, blame=None, flips=[], ladder=[], script="a.py")
    assert [change.pasted.code for change in found] == [
        "torch.compiler.disable(torch.Tensor.relu)(x)",
        "@torch.compiler.disable",
    ]
