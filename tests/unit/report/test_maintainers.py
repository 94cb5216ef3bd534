"""What a maintainer reads first: labels, what the failure needs, and how to see it again."""

from __future__ import annotations

from minimizer.report.maintainers import conditions, labels, replay
from minimizer.report.model import Blame, Failure, Reduction, Report, Verification
from minimizer.vocabulary import Kind, Stage

REPRO = """# torch.compile(f, mode="no setting of the repro")
import torch
torch._inductor.config.max_fusion_size = 1
x = torch.ones(3, dtype=torch.bfloat16)
torch.compile(f, dynamic=True)(x)
"""


def report(stage: Stage = Stage.INDUCTOR, kind: Kind = Kind.WRONG_OUTPUT) -> Report:
    return Report(
        failure=Failure(kind=kind, stage=stage),
        reduction=Reduction(nodes_after=1, one_minimal=True),
        verification=Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True),
        environment={"device": "cpu"},
    )


def test_labels_follow_the_first_rung_that_fails() -> None:
    assert labels(report(), REPRO) == [
        "oncall: pt2", "module: inductor", "oncall: cpu inductor", "module: correctness (silent)", "module: dynamic shapes",
    ]  # fmt: skip
    assert labels(report(Stage.AOT_AUTOGRAD, Kind.HANG), "") == ["oncall: pt2", "module: pt2-dispatcher"]
    assert labels(report(Stage.AOT_AUTOGRAD, Kind.CRASH), "")[2:] == ["module: crash"]
    assert labels(report(Stage.CUSTOM_BACKEND), REPRO) == labels(report(Stage.CUSTOM_OP), REPRO) == []
    assert labels(Report(), None) == []


def test_conditions_are_what_is_left_in_the_code() -> None:
    assert conditions(report(), REPRO).splitlines() == [
        "- a single operation is enough",
        "- `torch.compile` with `dynamic=True`",
        "- the setting `torch._inductor.config.max_fusion_size = 1`",
        "- the dtype `bfloat16`",
    ]
    unfinished = report().model_copy(update={"reduction": Reduction(nodes_after=4)})
    assert conditions(unfinished, REPRO) == ""


def test_an_input_requires_grad_only_where_one_is_made_so() -> None:
    for code in ("x = torch.ones(2, requires_grad=True)", "x = torch.ones(2).t().requires_grad_()"):
        assert "- an input that requires grad" in conditions(report(), code)
    looks = (
        "def describe(out):\n    return out.dtype, out.requires_grad\nsum(o.sum() for o in f(x) if o.requires_grad)\n"
    )
    assert "requires grad" not in conditions(report(), looks)


def test_replay_switches_off_what_was_confirmed() -> None:
    blamed = report().model_copy(update={"blame": Blame(subsystem="lowerings", confirmed=True)})
    line = "TORCH_BISECT_BACKEND=inductor TORCH_BISECT_SUBSYSTEM=lowerings TORCH_BISECT_MAX=-1 python repro.py"
    assert line in replay(blamed, REPRO)
    assert "BISECT" not in replay(
        report().model_copy(update={"blame": Blame(subsystem="fusion", confirmed=True)}), REPRO
    )
    assert "BISECT" not in replay(report().model_copy(update={"blame": Blame(subsystem="lowerings")}), REPRO)


def test_replay_promises_only_what_was_seen() -> None:
    assert "TORCHDYNAMO_DISABLE=1 python repro.py" in replay(report(), REPRO)
    assert replay(Report(failure=Failure(kind=Kind.CRASH)), REPRO) == ""
    unseen = Verification(runs=3, failed_same=0, clean_process=True, passes_with_compiler_off=True)
    assert replay(report().model_copy(update={"verification": unseen}), REPRO) == ""
