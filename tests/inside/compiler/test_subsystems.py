"""Switching parts of the real compiler off, and finding the one to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from children import trial

from minimizer.engine.child.executor import Executor
from minimizer.engine.child.survey import Survey
from minimizer.engine.diagnose.sets import Answer, Setting
from minimizer.engine.diagnose.stages import find_part
from minimizer.engine.diagnose.trials import ProgramTrials
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta
from minimizer.inside.questions import SettingsRequest, Switches
from minimizer.vocabulary import Kind, Stage

META = TensorMeta((3, 4), "torch.float32", (4, 1))
ROWS = (slice(0, None, None), slice(None, None, None))
NOOP_SLICES = Program(
    inputs=(Input("dst", META, code="torch.zeros(3, 4)"), Input("src", META, code="torch.arange(12.0).view(3, 4)")),
    nodes=(
        Node("part", "operator.getitem", (Ref("src"), ROWS), meta=META),
        Node("set", "operator.setitem", (Ref("dst"), ROWS, Ref("part"))),
        Node("sum", ".add_", (Ref("src"), 1), meta=META),
    ),
    outputs=("sum",),
)
"""#198131: a copy of a slice that is all of its tensor is taken for none, and read after the tensor has changed."""


def trials(child: Executor, program: Program) -> ProgramTrials:
    survey = cast(Survey, None)  # holds golden values, and these programs have none
    return ProgramTrials(program, Oracle(child, survey, (Signature(Kind.WRONG_OUTPUT),)))


@pytest.mark.quality("slow")
def test_trap_15_both_passes_are_blamed_in_few_runs(child: Executor) -> None:
    """PyTorch's bisector names one subsystem, after 50 runs, and empties the cache directory."""
    (kept := child.cache / "kept").write_text("of an earlier trial")

    blame = find_part(trials(child, NOOP_SLICES), Stage.INDUCTOR)

    assert blame.items == ["joint_graph_passes/remove_noop_ops", "post_grad_passes/remove_noop_ops"]
    assert blame.confirmed
    assert blame.any_of
    assert blame.runs <= 25
    assert kept.exists()


def test_a_decomposition_is_blamed(child: Executor) -> None:
    wrong = (
        "import torch._inductor.decomposition",
        "torch._inductor.decomposition.decompositions[torch.ops.aten.silu.default] = lambda x: x * x.sigmoid() * 2",
    )
    silu = Node("y", "torch.nn.functional.silu", (Ref("x"),), meta=META)
    program = Program((Input("x", META, code="torch.ones(3, 4)"),), (silu,), ("y",), setup=wrong)

    blame = find_part(trials(child, program), Stage.DECOMPOSITION)

    assert (blame.items, blame.confirmed) == (["decomposition/aten.silu.default"], True)
    off = Setting(off=frozenset(blame.items))
    assert [seen.answer for seen in trials(child, program)([off])] == [Answer.PASSES]  # under inductor as well


@pytest.mark.parametrize(
    ("statement", "failure"),
    [
        pytest.param("while True: pass", Signature(Kind.HANG), marks=pytest.mark.quality("slow")),
        pytest.param("os.abort()", Signature(Kind.CRASH, signal=6), marks=pytest.mark.quality("slow")),
        ("raise KeyError('cumsum')", Signature(Kind.COMPILE_ERROR, "KeyError", "'cumsum'")),
    ],
)
def test_a_pass_that_does_not_return_is_blamed(child: Executor, statement: str, failure: Signature) -> None:
    wrong = (
        f"import os\ndef custom(graph):\n    if any('cumsum' in str(n.target) for n in graph.nodes):\n        {statement}",
        "torch._inductor.config.post_grad_custom_post_pass = custom",
        "torch._inductor.config.fx_graph_cache = False",  # it would ask the pass for a name
    )
    cumsum = Node("y", ".cumsum", (Ref("x"), 0), meta=META)
    program = Program((Input("x", META, code="torch.ones(3, 4)"),), (cumsum,), ("y",), setup=wrong)

    blame = find_part(ProgramTrials(program, Oracle(child, cast(Survey, None), (failure,))), Stage.INDUCTOR)

    assert (blame.items, blame.confirmed) == (["post_grad_passes/post_grad_custom_post_pass"], True)


@pytest.mark.quality("slow")
def test_trap_15_a_stale_state_of_pytorchs_own_bisector_has_no_effect(child: Executor) -> None:
    """It would change the backend of whatever is compiled next."""
    state = child.cache / "bisect"
    (state / "aot_eager").mkdir(parents=True)
    status = state / "bisect_status.txt"
    status.write_text("backend=aot_eager\nsubsystem=\n")
    broken = "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'"
    request = trial("return torch.relu(x)", setup=broken, compile_kwargs="", switches=Switches())
    try:
        (outcome,) = child.judge([request], timeout=200)
    finally:
        status.unlink()

    assert outcome.ending == "different"  # under aot_eager it would pass
    assert outcome.parts["lowerings/aten.relu.default"]


def test_a_trial_without_switches_names_no_parts(child: Executor) -> None:
    (outcome,) = child.judge([trial("return torch.relu(x)", compile_kwargs="")], timeout=200)

    assert outcome.parts == {}


def test_settings_that_this_torch_does_not_have_are_left_out(child: Executor) -> None:
    names = ["torch._inductor.config.epilogue_fusion", "torch._inductor.config.no_such_setting"]
    setup = "import torch\ntorch._inductor.config.epilogue_fusion = False"

    (outcome,) = child.judge([SettingsRequest(setup=setup, expressions=names)], timeout=200)

    assert outcome.values == {names[0]: "False"}


def test_a_fusion_can_be_switched_off(child: Executor) -> None:
    request = trial("return x + 1, x * 2", compile_kwargs="", switches=Switches())
    (outcome,) = child.judge([request], timeout=200)
    fusions = [part for part in outcome.parts if part.startswith("fusion/")]

    (without,) = child.judge([replace(request, switches=Switches(only={"fusion": []}))], timeout=200)

    assert fusions
    assert without.ending == "same"
    assert not any(acted for part, acted in without.parts.items() if part.startswith("fusion/"))
