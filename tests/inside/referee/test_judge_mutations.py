"""Mutation of the judge: made blind to one aspect of a result, it passes wrong programs, and tests of ours fail.

Two proofs for each aspect. A whole trial whose compiled side is wrong in this aspect alone is caught, and no longer once the
judge is blind: so each aspect is looked at on the way from a trial to its outcome, and by nothing else. And the tests named
here fail with a blind judge: so that they would tell us.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import test_compare
import test_referee
import torch
from children import trial

from minimizer.inside.questions import TrialRequest
from minimizer.inside.referee import compare as comparator
from minimizer.inside.referee import referee
from minimizer.inside.referee.call import Call, GradientCall
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.tasks import trial as judging
from minimizer.inside.values.snapshot import global_state
from minimizer.inside.wire import Channel, plain

Function = Callable[..., Any]


class WrongGradient(torch.autograd.Function):
    """The identity, whose gradient is twice what it should be."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return 2 * grads[0]


@dataclass(frozen=True)
class Aspect:
    """One thing that a judge may be blind to.

    ``check`` is what the comparator sees it by; ``body`` a program of ``x``, and ``wrong`` what its compiled side makes of the
    right result; ``tests`` are tests of ours that fail without the check.
    """

    check: str
    body: str
    wrong: Function
    kind: str
    tests: tuple[Callable[[], None], ...]
    grad: bool = False


ASPECTS = {
    "values": Aspect(
        check="check_values",
        body="return x.sin()",
        wrong=lambda result: result + 1,
        kind="wrong_output",
        tests=(test_compare.test_trap_05_zeros_are_not_5e_4, test_referee.test_zeros_for_5e_4_are_a_fault),
    ),
    "gradients": Aspect(
        check="check_gradients",
        body="return x.sin()",
        wrong=WrongGradient.apply,
        kind="wrong_gradient",
        tests=(
            test_compare.test_missing_gradient_is_wrong_and_a_gradient_of_zeros_is_metadata,
            test_referee.test_nan_in_gradients_is_wrong_gradient,
        ),
        grad=True,
    ),
    "dtype": Aspect(
        check="check_dtype",
        body="return x.sin()",
        wrong=lambda result: result.double(),
        kind="wrong_metadata",
        tests=(
            test_compare.test_integer_of_another_width_is_metadata_only,
            test_referee.test_metadata_never_differs_legally,
        ),
    ),
    "stride": Aspect(
        check="check_stride",
        body="return x.sin().reshape(2, 2)",
        wrong=lambda result: result.t().contiguous().t(),
        kind="wrong_metadata",
        tests=(test_compare.test_trap_05_stride_is_looked_at, test_referee.test_metadata_never_differs_legally),
    ),
    "aliasing": Aspect(
        check="check_aliasing",
        body="return x.view(2, 2)",
        wrong=lambda result: result.clone(),
        kind="wrong_metadata",
        tests=(test_compare.test_trap_05_aliasing_is_looked_at,),
    ),
    "NaN positions": Aspect(
        check="check_nan",
        body="return (x - 2).sqrt()",
        wrong=lambda result: result.nan_to_num(),
        kind="wrong_output",
        tests=(
            lambda: test_compare.test_complex_values_nan_and_conjugates(torch.complex64),
            test_referee.test_var_rsqrt_in_half_can_be_reduced_under_the_script_s_own_check,
        ),
    ),
}
aspects = pytest.mark.parametrize("aspect", ASPECTS.values(), ids=ASPECTS)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[[Aspect], None]:
    """Take the check of an aspect out of the comparator."""

    def blind(aspect: Aspect) -> None:
        checks = tuple(check for check in comparator.CHECKS if check.__name__ != aspect.check)
        assert len(checks) == len(comparator.CHECKS) - 1
        monkeypatch.setattr(comparator, "CHECKS", checks)

    return blind


class Sent(Channel):
    """Keeps what a trial sends."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(plain(message))


def outcome(aspect: Aspect, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How a trial ends whose compiled side is wrong in this aspect."""
    return ended(trial(aspect.body, grad=aspect.grad), aspect.wrong, monkeypatch)


def ended(request: TrialRequest, wrong: Function, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How a trial ends whose compiled side makes this of the right result; nothing is compiled."""
    monkeypatch.setattr(judging.Trial, "compile", lambda self, function: lambda x: wrong(function(x)))
    inputs = [replace(request.inputs[0], requires_grad=request.grad), *request.inputs[1:]]
    sent = Sent()
    judging.judge(replace(request, inputs=inputs).message(), sent)
    return [message for message in sent.messages if message["type"] == "outcome"][-1]


@aspects
def test_a_trial_that_is_wrong_in_one_aspect_passes_only_a_blind_judge(
    aspect: Aspect, blind: Callable[[Aspect], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = outcome(aspect, monkeypatch)
    assert (seen["ending"], seen["verdict"]["kind"]) == ("different", aspect.kind)
    blind(aspect)
    assert outcome(aspect, monkeypatch)["ending"] == "same"


@aspects
def test_our_tests_fail_with_a_judge_that_is_blind(aspect: Aspect, blind: Callable[[Aspect], None]) -> None:
    for test in aspect.tests:
        torch.manual_seed(0)
        test()
    blind(aspect)
    for test in aspect.tests:
        torch.manual_seed(0)
        with pytest.raises((AssertionError, ValueError, IndexError)):  # a difference was expected, none came
            test()


LEAVES_AUTOCAST_ON = """
    y = x.reshape(2, 2) @ x.reshape(2, 2)
    entered = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, None)
    return y.relu()
"""


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("factor", "word"), [(1.0, "same"), (1.01, "different")])
def test_switches_that_a_candidate_leaves_on_count_on_neither_side(
    grad: bool, factor: float, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = global_state()
    request = trial(LEAVES_AUTOCAST_ON, grad=grad, compilations=2, failures=2)
    assert ended(request, lambda result: result * factor, monkeypatch)["ending"] == word
    assert global_state() == before


def test_switches_that_the_text_sets_count_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    request = trial("return torch.ones(4) * x", setup="torch.set_default_dtype(torch.float64)")
    with global_state().applied():
        assert ended(request, lambda result: result.float(), monkeypatch)["ending"] == "different"
    with global_state().applied():
        assert ended(request, lambda result: result * 1, monkeypatch)["ending"] == "same"


@pytest.mark.parametrize(("of_gradients", "aspect"), [(False, "values"), (True, "gradients")])
def test_what_the_referee_cannot_judge_is_not_called_the_same(
    of_gradients: bool, aspect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = referee.judge

    def cannot(call: Call, *rest: Any) -> Verdict:
        if isinstance(call, GradientCall) is of_gradients:
            raise RuntimeError("no mode of ours here")
        return judge(call, *rest)

    monkeypatch.setattr(referee, "judge", cannot)
    said = outcome(ASPECTS[aspect], monkeypatch)
    assert (said["ending"], said["exception"]["message"]) == ("setup_error", "no mode of ours here")


def test_every_check_of_values_and_metadata_is_somebodys() -> None:
    """Checks of structure, plain values, shapes, infinities and requires_grad have their guard in test_compare."""
    names = {check.__name__ for check in comparator.CHECKS}
    assert {aspect.check for aspect in ASPECTS.values()} < names == set(test_compare.SEEN_ONLY_BY)
