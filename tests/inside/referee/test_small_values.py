"""Small values: gradients and updates far below 1 are judged relative to themselves, and what large terms cancel to is excused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minimizer.inside.referee.call import Call
from minimizer.inside.referee.known import Known
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.verdict import Verdict


def judged(function: Callable[..., Any], inputs: list[Any], compiled: Callable[..., Any]) -> Verdict:
    torch.manual_seed(0)
    call = Call.now(function, inputs)
    return judge(call, call.run(function), call.run(compiled))


def update(x: torch.Tensor) -> torch.Tensor:
    """A step at a small learning rate: all values are below 1e-6."""
    return 2e-6 * x.sign() * (x.abs().exp() - 1)


@pytest.mark.parametrize("factor", [0.0, 8.0, -1.0, 1.01])
def test_a_small_update_that_is_wrong_is_a_fault(factor: float) -> None:
    """Not made, too large, with the other sign, and off by a hundredth: all within an absolute 1e-5."""
    x = torch.randn(64) * 0.1
    verdict = judged(update, [x], lambda x: update(x) * factor)
    assert verdict.fault and verdict.kind == "wrong_output"
    assert verdict.differences[0].rtol == pytest.approx(1.3e-6)


def test_a_small_update_that_is_rounded_otherwise_is_none() -> None:
    x = torch.randn(64) * 0.1
    verdict = judged(update, [x], lambda x: update(x) * (1 + 2**-22))
    assert not verdict.fault and not verdict.discrete


def zeros_of_large_terms(x: torch.Tensor) -> torch.Tensor:
    """Sums of a thousand terms that cancel: all that is left is rounding, about 1e-6."""
    return (x - x.mean(1, keepdim=True)).sum(1)


def test_what_large_terms_cancel_to_is_rounding() -> None:
    x = torch.randn(16, 1000) * 0.01 + 0.03
    reordered = lambda x: (x.flip(1) - x.flip(1).mean(1, keepdim=True)).cumsum(1)[:, -1].contiguous()  # noqa: E731
    verdict = judged(zeros_of_large_terms, [x], reordered)
    assert not verdict.fault and not verdict.nondeterministic
    assert verdict.excuses == ["rounding"]


def test_small_values_beside_large_ones_are_a_group_of_their_own() -> None:
    x = torch.rand(64) + 1
    both = lambda x: torch.cat([x.exp(), 1e-7 * x.exp()])  # noqa: E731
    wrong = lambda x: torch.cat([x.exp(), 1e-7 * x.exp() * 1.5])  # noqa: E731
    assert judged(both, [x], wrong).fault
    assert not judged(both, [x], both).fault


class Counted:
    """A program that counts its runs."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return zeros_of_large_terms(x)


def test_what_eager_is_off_is_learned_once() -> None:
    """The referee runs eager many times for the first call of a graph; later ones that are as far off need no run."""
    eager, known, runs = Counted(), Known(), []
    for seed in range(2):
        torch.manual_seed(seed)
        call = Call.now(eager, [torch.randn(16, 1000) * 0.01 + 0.03])
        expected, other = call.run(eager), call.run(lambda x: zeros_of_large_terms(x.flip(1)))
        before = eager.calls
        assert not judge(call, expected, other, known).fault
        runs.append(eager.calls - before)
    assert runs[0] > 2 and runs[1] <= 1
    call = Call.now(eager, [torch.randn(16, 1000) * 0.01 + 0.03])
    assert judge(call, call.run(eager), call.run(lambda x: zeros_of_large_terms(x) + 1e-3), known).fault


def test_a_half_precision_gradient_may_be_off_by_a_subnormal() -> None:
    x = torch.full((32,), 3e-7, dtype=torch.float16)
    scaled = lambda x: x * 1.5  # noqa: E731
    assert not judged(scaled, [x], lambda x: scaled(x) + 6e-8).fault
    assert judged(scaled, [x], lambda x: scaled(x) * 8).fault


def potential(x: torch.Tensor) -> torch.Tensor:
    return (x * x.sin()).square().sum() + (x * x.flip(0)).cos().sum()


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(torch.func.hessian(potential), id="hessian"),
        pytest.param(
            lambda x: torch.func.vmap(lambda to: torch.func.jvp(torch.func.grad(potential), (x,), (to,))[1])(
                torch.eye(len(x), dtype=x.dtype)
            ),
            id="vmap of jvp of grad",
        ),
    ],
)
def test_what_second_derivatives_cancel_to_is_rounding(second: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Torch runs the operators of a forward-mode derivative on meta tensors too, which no rounding can be redrawn in."""
    x = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    near = second(x).sum(-1) * (1 + 2e-15)

    def program(x: torch.Tensor) -> torch.Tensor:
        return second(x).sum(-1) - near

    assert not judged(program, [x], lambda x: program(x) * 1.5).fault  # by a rounding or two of the sum
    assert judged(program, [x], lambda x: program(x) + 1e-9).fault
