"""Behind each rule by which the referee excuses a difference: a fault that it must not hide, and a right program that needs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from minimizer.inside.referee.call import Call, Side
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.verdict import Verdict

Function = Callable[..., Any]


@dataclass(frozen=True)
class Pair:
    """A program, one right and one wrong way to compile it, and its inputs. ``options``: of the `Call`."""

    program: Function
    right: Function
    wrong: Function
    inputs: Callable[[], Sequence[Any]]
    options: tuple[tuple[str, Any], ...] = ()


class Noisy:
    """Fills the first half of a result with another number at each run, as uninitialised memory does; the other half is computed."""

    def __init__(self, factor: float = 1.0) -> None:
        self._runs, self._factor = 0.0, factor

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self._runs += 1.0
        return torch.full_like(x, self._runs * self._factor), x.sin()


def cancelled(x: torch.Tensor) -> torch.Tensor:
    """Sums of terms that cancel: all that is left is rounding."""
    return (x - x.mean(0)).sum(0)


def with_its_dtype(x: torch.Tensor) -> torch.Tensor:
    """Has no truth in double precision, since it uses a constant of its dtype."""
    return cancelled(x) + torch.finfo(x.dtype).tiny


def near_overflow(x: torch.Tensor) -> torch.Tensor:
    """Sums of which the first few overflow or not by their last bit; it has no truth in double precision."""
    return (x.sum(0) + torch.finfo(x.dtype).tiny) * (torch.finfo(x.dtype).max / 512)


def at_the_edge() -> list[torch.Tensor]:
    x = torch.rand(1000, 1024)
    return [x / x.sum(0) * torch.where(torch.arange(1024) < 128, 512.0, 384.0)]


def correlated(x: torch.Tensor) -> torch.Tensor:
    """Correlations on Fisher's scale, the first of each row with itself, where the last bit decides between a number, Inf and NaN."""
    x = x - x.mean(1, keepdim=True)
    x = x / x.norm(dim=1, keepdim=True)
    return torch.stack([(x * x.roll(shift, 0)).sum(1) for shift in range(8)], 1).atanh()


def correlated_in_its_dtype(x: torch.Tensor) -> torch.Tensor:
    """Has no truth in double precision, since it uses a constant of its dtype."""
    return correlated(x) + torch.finfo(x.dtype).tiny


def with_nan_at_steady_places(x: torch.Tensor) -> torch.Tensor:
    return correlated(x).masked_fill(torch.arange(8) > 0, float("nan"))


def draws(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand_like(x), x.sin()


EXCUSE_PAIRS: dict[str, Pair] = {
    "within_tolerance": Pair(torch.sin, lambda x: x.sin() * (1 + 2**-22), lambda x: x.sin() * (1 + 2**-12), lambda: [torch.rand(64)]),
    "own_tolerance": Pair(
        torch.sin, lambda x: x.sin() + 0.01, lambda x: x.sin() + 0.1, lambda: [torch.rand(64)], (("tolerance", {"rtol": 0.0, "atol": 0.05}),)
    ),
    "rounding": Pair(
        cancelled, lambda x: cancelled(x.flip(0)), lambda x: cancelled(x) + 1e-3, lambda: [torch.randn(1000, 4) * 0.01 + 0.03]
    ),
    "ulps": Pair(
        with_its_dtype, lambda x: with_its_dtype(x.flip(0)), lambda x: with_its_dtype(x) + 1e-3, lambda: [torch.randn(1000, 4) * 0.01 + 0.03]
    ),
    "nonfinite_moves": Pair(near_overflow, lambda x: near_overflow(x.flip(0)), lambda x: near_overflow(x) * 2, at_the_edge),
    "near_pole": Pair(correlated, lambda x: correlated(x.flip(1)), with_nan_at_steady_places, lambda: [torch.randn(64, 33)]),
    "undefined_result": Pair(
        lambda x: (x * 1e30).to(torch.int32) + 1,
        lambda x: torch.full_like(x, 7).to(torch.int32),
        lambda x: torch.full_like(x, 7).to(torch.int32)[:-1],
        lambda: [torch.rand(8) + 1],
    ),
    "random_stream": Pair(
        draws, lambda x: (torch.rand_like(x).flip(0), x.sin()), lambda x: (torch.rand_like(x), x.sin() + 1), lambda: [torch.rand(8)]
    ),
    "subnormal": Pair(
        lambda x: x.clone(), torch.zeros_like, lambda x: x.clone() + 1e-3, lambda: [torch.full((4,), 1e-39)]
    ),
    "opaque_objects": Pair(
        lambda x: (x.sin(), object()), lambda x: (x.sin(), object()), lambda x: (x.sin(), iter(())), lambda: [torch.rand(8)]
    ),
    "eager_spread": Pair(Noisy(), Noisy(2.0), lambda x: (Noisy(1.0)(x)[0], x.cos()), lambda: [torch.rand(8)]),
}  # fmt: skip


def judged(pair: Pair, compiled: Function) -> Verdict:
    torch.manual_seed(0)
    call = Call.now(pair.program, list(pair.inputs()), **dict(pair.options))
    return judge(call, call.run(pair.program), call.run(compiled))


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=pytest.mark.fault_behind(rule)) for rule in EXCUSE_PAIRS])
def test_a_rule_hides_no_fault(rule: str) -> None:
    pair = EXCUSE_PAIRS[rule]
    assert judged(pair, pair.wrong).fault


@pytest.mark.parametrize("rule", [pytest.param(rule, marks=pytest.mark.needs_excuse(rule)) for rule in EXCUSE_PAIRS])
def test_a_right_program_needs_the_rule(rule: str) -> None:
    pair = EXCUSE_PAIRS[rule]
    verdict = judged(pair, pair.right)
    assert not verdict.fault and rule in verdict.excuses


@pytest.mark.needs_excuse("layout_of_copies")
@pytest.mark.fault_behind("layout_of_copies")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_the_layout_of_an_input_that_its_copy_does_not_keep_is_no_fault_and_hides_none() -> None:
    """As in a survey: eager runs on copies of the inputs, and compiled code on the inputs themselves."""
    every_second = torch.quantize_per_tensor(torch.arange(8.0), 0.5, 0, torch.qint8)[::2]

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.dequantize() * 2

    call = Call.now(program, [every_second])
    expected = call.run(program)
    assert expected.inputs[0].stride() != every_second.stride()
    verdict = judge(call, expected, Side(program(every_second), [every_second]))
    assert not verdict.fault and verdict.excuses == ["layout_of_copies"]
    assert judge(call, expected, Side(program(every_second) + 1, [every_second])).fault


class Unequal:
    """A result that cannot be compared: its ``==`` raises."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise TypeError("ambiguous")


@pytest.mark.needs_excuse("opaque_objects")
@pytest.mark.fault_behind("opaque_objects")
def test_objects_that_cannot_be_compared_are_counted_and_hide_no_wrong_value_beside_them() -> None:
    def program(x: torch.Tensor) -> list[Any]:
        return [x.sin(), Unequal(), object()]

    pair = Pair(program, program, lambda x: [x.cos(), *program(x)[1:]], lambda: [torch.rand(8)])
    verdict = judged(pair, pair.right)
    assert not verdict.fault and verdict.excuses == ["opaque_objects"] * 2
    assert [difference.where for difference in judged(pair, pair.wrong).differences] == ["output[0]"]


@dataclass
class Record:
    """An object whose attributes are compared."""

    name: str


SHARED = object()


def test_what_scripts_return_beside_tensors_is_compared_without_an_excuse() -> None:
    def program(x: torch.Tensor) -> list[Any]:
        return [
            x.sin(),
            None,
            "a",
            1.5,
            (2, b"c"),
            {"k": {3}},
            Record("d"),
            torch.float32,
            x.device,
            slice(1),
            SHARED,
            torch.sin,
        ]

    pair = Pair(program, program, lambda x: [*program(x)[:6], Record("e"), *program(x)[7:]], lambda: [torch.rand(8)])
    assert judged(pair, pair.right) == Verdict()
    assert [difference.where for difference in judged(pair, pair.wrong).differences] == ["output[6].name"]


def test_nan_and_inf_near_a_pole_are_legal_without_a_truth_in_double_precision_too() -> None:
    pair = Pair(
        correlated_in_its_dtype,
        lambda x: correlated_in_its_dtype(x.flip(1)),
        lambda x: correlated_in_its_dtype(x).log(),
        lambda: [torch.randn(64, 33)],
    )
    verdict = judged(pair, pair.right)
    assert not verdict.fault and verdict.excuses
    assert judged(pair, pair.wrong).fault


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_nan_or_inf_in_what_large_terms_cancel_to_is_a_fault(odd: float) -> None:
    """No digit of such a value is right either, and it is near no pole."""
    wrong = Pair(
        cancelled,
        cancelled,
        lambda x: cancelled(x).index_fill(0, torch.tensor([2]), odd),
        lambda: [torch.randn(1000, 4) + 3],
    )
    assert judged(wrong, wrong.wrong).fault
