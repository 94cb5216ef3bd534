"""NaN and Inf near a pole, and what hangs on subnormal numbers: excused element by element, and nothing else beside them is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from minimizer.inside.referee.call import Call
from minimizer.inside.referee.flushing import Flushing
from minimizer.inside.referee.poles import Poles, Shows
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.reruns import Reruns
from minimizer.inside.referee.verdict import Verdict

Function = Callable[..., Any]
NAN, INF = float("nan"), float("inf")


def judged(function: Function, inputs: list[Any], compiled: Function) -> Verdict:
    call = Call.now(function, inputs)
    return judge(call, call.run(function), call.run(compiled))


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def correlations(x: torch.Tensor) -> torch.Tensor:
    """Correlations on Fisher's scale: of all rows with others, and at last of the first with itself, which is a pole."""
    x = x - x.mean(1, keepdim=True)
    x = x / x.norm(dim=1, keepdim=True)
    others = [(x * x.roll(shift, 0)).sum(1) for shift in range(1, 8)]
    return torch.cat([*others, (x[:1] * x[:1]).sum(1)]).atanh()


def in_its_dtype(x: torch.Tensor) -> torch.Tensor:
    """Has no truth in double precision, since it uses a constant of its dtype."""
    return correlations(x) + torch.finfo(x.dtype).tiny


PROGRAMS = pytest.mark.parametrize("program", [correlations, in_its_dtype], ids=["fp64", "ulps"])


@PROGRAMS
@pytest.mark.parametrize(
    ("dtype", "offset"), [(torch.float32, 0.0), (torch.float32, 100.0), (torch.float16, 0.0), (torch.bfloat16, 0.0)]
)
def test_nan_in_what_cancels_to_near_zero_is_a_fault_beside_a_pole(
    program: Function, dtype: torch.dtype, offset: float
) -> None:
    """No digit of a small correlation need be right, relative to itself."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        result = program(x)
        return torch.where(result.abs() < 0.02, NAN, result)

    assert judged(program, [(random(64, 33) + offset).to(dtype)], wrong).fault


@PROGRAMS
@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("odd", [NAN, INF, -INF])
def test_odd_numbers_away_from_a_pole_are_a_fault(program: Function, odd: float, is_small: bool) -> None:
    """At more elements than the one at a pole explains by its number, steady ones or ones near zero."""

    def wrong(x: torch.Tensor) -> torch.Tensor:
        result = program(x)
        return result.index_fill(0, result[:-1].abs().topk(40, largest=not is_small).indices, odd)

    assert judged(program, [random(64, 33)], wrong).fault


def test_next_to_a_pole_is_excused_what_runs_make_there_and_the_infinity_between_it_and_their_numbers() -> None:
    truth = torch.linspace(1, 2, 16, dtype=torch.float64)
    poles = Poles(truth, torch.float32)
    poles.learn(truth.index_fill(0, torch.tensor([0]), NAN), Shows.DIGITS)
    poles.learn(truth.index_fill(0, torch.tensor([0, 1]), 9.0), Shows.DIGITS)
    excused = [poles.excused(torch.full_like(truth, odd)).nonzero().flatten().tolist() for odd in (NAN, INF, -INF)]
    assert excused == [[0, 1], [0], []]


def test_a_run_shows_no_more_than_it_can() -> None:
    truth = torch.linspace(1, 2, 16, dtype=torch.float64)
    poles = Poles(truth, torch.float32)
    poles.learn(truth.index_fill(0, torch.tensor([0]), NAN), Shows.PLACES)
    poles.learn(truth.index_fill(0, torch.tensor([1]), 9.0), Shows.PLACES)
    poles.learn(truth.index_fill(0, torch.tensor([2]), NAN), Shows.KINDS)
    assert poles.excused(torch.full_like(truth, NAN)).nonzero().flatten().tolist() == [0]


@pytest.mark.parametrize(
    "program",
    [lambda s: 1 / (1 - s), torch.acos, lambda s: s.atanh() + torch.finfo(s.dtype).tiny],
    ids=["hits a pole", "beside a pole", "without a truth"],
)
def test_few_elements_near_a_pole_are_judged_by_more_than_two_redrawn_runs(program: Function) -> None:
    """A wide perturbation misses the one value that makes 1 / 0, and two runs of one element say little of its spread."""

    def length(x: torch.Tensor, *, flipped: bool = False) -> torch.Tensor:
        unit = (x - x.mean(1, keepdim=True)) / (x - x.mean(1, keepdim=True)).norm(dim=1, keepdim=True)
        return program((unit * unit).flip(1 if flipped else ()).sum(1))

    verdicts = []
    for seed in range(40):
        torch.manual_seed(seed)
        call = Call.now(length, [torch.randn(1 + 2 * (seed % 2), 33)])
        verdicts.append(judge(call, call.run(length), call.run(lambda x: length(x, flipped=True))))
    assert any(verdict.differences for verdict in verdicts)
    assert not any(verdict.fault for verdict in verdicts)


def distances(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of how far lengths are from 1: the gradient of ``abs`` at zero, times infinity, is NaN."""
    return (1 - (x * x).sum(1)).abs().log()


@pytest.mark.parametrize("is_near", [True, False])
def test_nan_behind_a_jump_is_a_fault_away_from_a_pole_only(is_near: bool) -> None:
    """Of one row each, where eager has a number."""

    def with_nan(x: torch.Tensor) -> torch.Tensor:
        result = distances(x)
        result.register_hook(lambda grad: grad * torch.nan)
        return result

    unit = torch.nn.functional.normalize(torch.randn(64, 33, generator=torch.Generator().manual_seed(1)))
    row = unit[(1 - (unit * unit).sum(1)).abs() > 0][2:3]
    x = (row if is_near else row / 2).requires_grad_()
    call = Call.now(distances, [x]).behind(None)
    verdict = judge(call, call.run(distances), call.run(with_nan))
    assert (verdict.fault, verdict.discrete) == (not is_near, is_near)


SUBNORMAL: dict[str, Function] = {
    "their logarithm": lambda x, below: small(x.exp(), below).log(),
    "a clamp beside them": lambda x, below: small(x.exp(), below).clamp(min=1e-42).log(),
    "a ratio of them": lambda x, below: small(x.exp(), below) / small(x.exp(), below).sum(-1, keepdim=True),
}


def small(values: torch.Tensor, below: float) -> torch.Tensor:
    return torch.where(values < below, 0.0, values) if below else values


@pytest.mark.parametrize("name", SUBNORMAL)
def test_subnormal_numbers_may_be_flushed_in_the_middle_of_a_program_and_normal_ones_may_not(name: str) -> None:
    """As Triton's kernels do by default. Behind the logarithm of such a number stands -Inf in the place of -90."""
    program = SUBNORMAL[name]
    x = torch.linspace(-100, -20, 512).view(64, 8)
    call = Call.now(lambda x: program(x, 0.0), [x])
    flushed, lost = (
        call.run(lambda x, below=below: program(x, below)) for below in (torch.finfo(torch.float32).tiny, 1e-18)
    )
    eager = call.run(call.function)
    assert judge(call, eager, flushed).differences
    assert not judge(call, eager, flushed).fault
    assert judge(call, eager, lost).fault


@pytest.mark.parametrize("extra", [0.0, torch.finfo(torch.float32).tiny], ids=["fp64", "ulps"])
def test_nan_at_normal_numbers_is_a_fault_beside_subnormal_ones(extra: float) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.exp().log() + (torch.finfo(x.dtype).tiny if extra else 0.0)

    x = torch.linspace(-100, -20, 512)
    assert judged(program, [x], lambda x: torch.where(x > -51, NAN, program(x))).fault


@pytest.mark.parametrize("odd", [NAN, INF])
def test_a_subnormal_number_may_become_only_what_flushing_makes_of_it(odd: float) -> None:
    """Its logarithm is -Inf where it is flushed."""
    x = torch.linspace(-100, -20, 512)
    program = lambda x: x.exp().log()  # noqa: E731
    assert judged(program, [x], lambda x: program(x).index_fill(0, torch.tensor([3]), odd)).fault
    assert not judged(program, [x], lambda x: program(x).index_fill(0, torch.tensor([3]), -INF)).fault


def rescaled(x: torch.Tensor) -> torch.Tensor:
    """Four subnormal numbers in the size of others."""
    return torch.cat([x[:4].exp() * 1e20 * 1e21, x[4:].sin() + 2])


def rescaled_in_its_dtype(x: torch.Tensor) -> torch.Tensor:
    return rescaled(x) + torch.finfo(x.dtype).tiny


@pytest.mark.parametrize("program", [rescaled, rescaled_in_its_dtype], ids=["fp64", "ulps"])
def test_a_wrong_number_is_a_fault_beside_rescaled_subnormal_ones(program: Function) -> None:
    x = torch.cat([torch.full((4,), -95.0), random(60)])
    flushed = lambda x: program(x).index_fill(0, torch.arange(4), 0.0)  # noqa: E731
    assert not judged(program, [x], flushed).fault
    for at, off in ((20, 1.5), (20, 0.01), (2, 3.0)):
        assert judged(program, [x], lambda x, at=at, off=off: flushed(x) + off * (torch.arange(64) == at)).fault


@pytest.mark.parametrize("wrong", [0.99, 0.995, 1.005, 1.01])
@pytest.mark.parametrize(
    "program",
    [lambda x: logarithms(x).sum(0), lambda x: x / logarithms(x).square().mean().sqrt()],
    ids=["sums", "all divided by one mean"],
)
def test_flushing_that_moves_all_elements_excuses_no_other_number(program: Function, wrong: float) -> None:
    x = torch.linspace(-100, -20, 512).view(64, 8)
    assert judged(program, [x], lambda x: program(x) * wrong).fault
    with Flushing():
        flushed = program(x.clone())
    assert not judged(program, [x], lambda _: flushed.clone()).fault


def logarithms(x: torch.Tensor) -> torch.Tensor:
    return x.exp().clamp(min=1e-42).log()


def test_an_infinite_result_of_another_shape_is_a_fault_beside_a_pole() -> None:
    x = torch.nn.functional.normalize(random(8, 33))
    program = lambda x: 1 / (1 - (x * x).sum(1))  # noqa: E731
    assert judged(program, [x], lambda x: torch.full((1, 8), INF)).fault


def test_nan_in_the_place_of_whole_numbers_is_a_fault() -> None:
    call = Call.now(lambda: torch.randint(0, 9, (8,)), [], random=True)
    assert judge(call, call.run(call.function), call.run(lambda: torch.full((8,), NAN))).fault


def test_flushing_keeps_the_sign_of_zero_and_of_complex_parts() -> None:
    x = torch.tensor([-1e-20, 1e-20, 3.0])
    z = torch.complex(x, -x)
    with Flushing():
        product, both = x * 1e-20, z * 1e-20
    assert product[:2].tolist() == [0.0, 0.0] and product.signbit().tolist() == [True, False, False]
    assert product[2] == torch.tensor(3.0) * 1e-20
    assert both.real[:2].eq(0).all() and both.imag[:2].eq(0).all()


def test_nan_in_a_selection_of_another_size_in_each_run_is_judged() -> None:
    """Elements that a last bit takes into the selection, or leaves out."""

    def program(x: torch.Tensor) -> torch.Tensor:
        s = x / 0.37 * 0.37
        return s[s > 3].log()

    x = torch.cat([torch.full((40,), 3.0), random(40) + 5]).add(torch.linspace(-3e-7, 3e-7, 80))
    call = Call.now(program, [x])
    eager = call.run(program)
    assert {run["output"].shape for run in Reruns(call).redrawn} - {eager.result.shape}
    verdict = judge(call, eager, call.run(lambda x: program(x).index_fill(0, torch.tensor([5]), NAN)))
    assert verdict.fault and verdict.rule == "NaN behind a jump"


def test_further_runs_are_made_when_they_are_asked_for_and_once() -> None:
    made = []

    def program(x: torch.Tensor) -> torch.Tensor:
        made.append(x)
        return x.sin()

    runs = Reruns(Call.now(program, [random(4)]))
    for _ in range(2):
        next(iter(runs.redrawn_further))
        assert len(made) == 2
    assert len(list(runs.redrawn_further)) == len(list(runs.redrawn_further)) == 4
    assert len(made) == 8


def test_a_run_that_is_another_one_when_it_is_repeated_explains_nothing() -> None:
    """An operator that is off in every fifth call is hit by one of many runs: that is no rounding."""
    calls = []

    def program(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        return x.sin() + (len(calls) % 5 == 0)

    x = random(64)
    call = Call.now(program, [x])
    assert all(float(run["output"].max()) < 1.5 for run in Reruns(call).redrawn_further)
    calls.clear()
    assert any(float(run["output"].max()) > 1.5 for run in (call.run(program).places() for _ in range(5)))
