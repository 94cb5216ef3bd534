"""Confidence is earned: each piece of evidence that is missing costs some."""

from __future__ import annotations

from typing import Any

import pytest

from minimizer.report.confidence import confidence
from minimizer.report.culprit import Culprit, Layer
from minimizer.report.examined import Checked
from minimizer.report.model import Blame, Failure, Report, Reproducibility, Rung, Verification, Witness
from minimizer.vocabulary import Kind, Stage, Status

CONFIRMED = Blame(subsystem="post_grad_passes", items=["post_grad_passes/remove_noop_ops"], confirmed=True)
SEES = Witness(after="aot", level=4, outcome="repro", agrees=True)


def report(**changes: Any) -> Report:
    full: dict[str, Any] = {
        "status": Status.MINIMIZED,
        "failure": Failure(
            kind=Kind.WRONG_OUTPUT, stage=Stage.INDUCTOR, reproducibility=Reproducibility(failed=2, runs=2)
        ),
        "culprits": [Culprit(module="blocks.2.activation", ops=["aten.relu"])],
        "layers": [Layer(path="blocks.2.activation", order=0, verdict="bad", compiled_vs_fp64=2.0, eager_vs_fp64=0.0)],
        "ladder": [
            Rung(backend="aot_eager", outcome="passes", seconds=1),
            Rung(backend="inductor", outcome="different", seconds=1),
        ],
        "verification": Verification(runs=3, failed_same=3, clean_process=True, passes_with_compiler_off=True),
    }
    return Report(**{**full, **changes})


def test_all_of_it_makes_a_verdict_sure_and_says_why() -> None:
    found = confidence(report())
    assert found.level == "high"
    assert found.reasons == (
        "The script failed in 2 of 2 runs",
        "The repro failed in the same way in 3 of 3 clean processes, and passes with the compiler switched off",
        "On the ladder of backends inductor is the first to fail",
        "Independent methods agree: compiled alone on eager's inputs, the culprit's layer is wrong; float64 sides with eager",
    )


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({"verification": None}, "unknown"),
        ({"verification": Verification(runs=3, failed_same=2, clean_process=True, passes_with_compiler_off=True)}, "low"),
        ({"verification": Verification(runs=3, failed_same=3, clean_process=True)}, "low"),
        ({"layers": [], "ladder": []}, "medium"),
        ({"layers": []}, "medium"),  # the compiler off and the ladder are what a repro and a stage take
        ({"layers": [], "blame": CONFIRMED}, "high"),
        ({"layers": [], "witnesses": [SEES]}, "high"),
        ({"failure": Failure(kind=Kind.WRONG_OUTPUT)}, "medium"),
        ({"failure": None, "status": Status.FAILED}, "unknown"),
        ({"failure": None, "status": Status.HEALTHY}, "low"),
        ({"failure": None, "status": Status.HEALTHY, "checked": Checked(frames=1, graphs=1, calls=3)}, "medium"),
    ],
)  # fmt: skip
def test_what_is_missing_costs_confidence(changes: dict[str, Any], level: str) -> None:
    assert confidence(report(**changes)).level == level


@pytest.mark.parametrize(
    ("outcomes", "agrees"),
    [
        (["passes", "different"], True),
        (["different", "passes"], False),
        (["passes", "lost", "different"], False),
        (["passes", "different", "lost"], True),
    ],
)
def test_the_ladder_is_told_only_where_the_rung_below_passes(outcomes: list[str], agrees: bool) -> None:
    ladder = [Rung(backend=f"b{i}", outcome=outcome, seconds=1) for i, outcome in enumerate(outcomes)]
    assert any("ladder" in reason for reason in confidence(report(ladder=ladder)).reasons) is agrees


def test_what_opcheck_finds_is_told_in_place_of_the_ladder() -> None:
    failure = Failure(kind=Kind.WRONG_OUTPUT, stage=Stage.CUSTOM_OP)
    ladder = [Rung(backend=f"b{i}", outcome=outcome, seconds=1) for i, outcome in enumerate(["passes", "different"])]
    reasons = confidence(report(failure=failure, ladder=ladder)).reasons
    assert "torch.library.opcheck finds the operator at fault, without the compiler" in reasons
    assert not any("ladder" in reason for reason in reasons)


def test_double_precision_has_no_say_in_what_is_no_number() -> None:
    failure = Failure(kind=Kind.WRONG_METADATA, stage=Stage.INDUCTOR)
    assert not any("float64" in reason for reason in confidence(report(failure=failure)).reasons)


def test_a_layer_elsewhere_does_not_agree() -> None:
    assert not any(
        "layer" in r for r in confidence(report(layers=[Layer(path="head", order=0, verdict="bad")])).reasons
    )


def test_a_witness_that_sees_nothing_is_told_and_decides_nothing() -> None:
    found = confidence(report(witnesses=[Witness(after="aot", level=4, outcome="no repro", agrees=False)]))
    assert found.level == "high"
    assert "PyTorch's own minifier sees no failure" in found.reasons
