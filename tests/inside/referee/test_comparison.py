"""A call on both sides: which step an exception ends, and whether values or gradients decide."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import torch

from minimizer.inside.referee import referee
from minimizer.inside.referee.call import Call, Side, Unplayable
from minimizer.inside.referee.comparison import (
    Compared,
    ComparisonStep,
    Judged,
    Raised,
    Run,
    compare_call,
    compare_with_gradients,
)
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.values.boundary import Difference


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def broken(x: torch.Tensor) -> NoReturn:
    raise ValueError("out of luck")


def run(function: Any) -> Run:
    return lambda call: call.run(function)


def unplayable(call: Call) -> NoReturn:
    raise Unplayable("has been resized")


@pytest.mark.parametrize(
    ("eager", "compiled", "steps"),
    [
        (broken, run(double), [ComparisonStep.EAGER]),
        (double, run(broken), [ComparisonStep.EAGER, ComparisonStep.COMPILED]),
    ],
)
def test_an_exception_ends_a_comparison_at_its_step(eager: Any, compiled: Run, steps: list[ComparisonStep]) -> None:
    begun: list[ComparisonStep] = []
    call = Call.now(eager, [torch.ones(2)])
    found = compare_call(call, compiled, begins=lambda call, step: begun.append(step))
    assert isinstance(found, Raised)
    assert (found.step, str(found.error), begun) == (steps[-1], "out of luck", steps)


def test_a_call_that_cannot_be_rerun_or_judged_is_not_the_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call.now(double, [torch.ones(2)])
    found = compare_call(call, unplayable)
    assert isinstance(found, Raised) and found.step is ComparisonStep.COMPARE
    monkeypatch.setattr(referee, "judge", broken)
    found = compare_call(call, run(double))
    assert isinstance(found, Raised) and found.step is ComparisonStep.COMPARE


def test_an_eager_side_that_has_run_is_not_run_again() -> None:
    call = Call.now(broken, [torch.ones(2)])
    side = Side(torch.full((2,), 3.0), [torch.ones(2)])
    found = compare_call(call, run(double), side)
    assert isinstance(found, Raised) and found.step is ComparisonStep.COMPARE, "the referee's own eager runs raise"
    found = compare_call(call, lambda call: side, side)
    assert isinstance(found, Judged) and not found.verdict.fault


def test_gradients_are_compared_unless_the_values_are_wrong() -> None:
    call = Call.now(double, [torch.ones(2, requires_grad=True)])
    expected = call.run(double)
    right = compare_with_gradients(call, run(double), expected, call.behind(None))
    assert isinstance(right.gradients, Judged) and right.decisive is right.gradients
    assert compare_with_gradients(call, run(double), expected, None).gradients is None
    wrong = compare_with_gradients(call, run(lambda x: x * 3), expected, call.behind(None))
    assert wrong.gradients is None and isinstance(wrong.decisive, Judged) and wrong.decisive.verdict.is_wrong


CALL = Call.now(double, [torch.ones(2)])
LAYOUT = Verdict(fault=True, differences=[Difference("output", "wrong_metadata", "stride", "(1, 2)", "(2, 1)")])
LOST = RuntimeError("CUDA error: an illegal memory access was encountered")


def verdict(verdict: Verdict) -> Judged:
    return Judged(CALL, Side(None), Side(None), verdict)


@pytest.mark.parametrize(
    ("values", "gradients", "is_by_gradients"),
    [
        (Verdict(), verdict(Verdict()), True),
        (Verdict(discrete=True), verdict(Verdict()), False),
        (LAYOUT, verdict(Verdict()), False),
        (Verdict(discrete=True), verdict(Verdict(fault=True)), True),
        (LAYOUT, verdict(Verdict(fault=True)), True),
        (Verdict(), Raised(CALL, ComparisonStep.EAGER, ValueError()), False),
        (Verdict(), Raised(CALL, ComparisonStep.EAGER, LOST), True),
        (Verdict(), Raised(CALL, ComparisonStep.COMPILED, ValueError()), True),
        (LAYOUT, Raised(CALL, ComparisonStep.COMPARE, ValueError()), True),
    ],
)
def test_right_gradients_clear_no_suspect_and_gradients_that_eager_has_not_decide_nothing(
    values: Verdict, gradients: Judged | Raised, is_by_gradients: bool
) -> None:
    compared = Compared(verdict(values), gradients)
    assert compared.decisive is (gradients if is_by_gradients else compared.values)
