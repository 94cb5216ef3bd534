"""The referee tells faults from legal rounding: one test per rule of judging, real faults and healthy programs.

Where a real compilation is not the point, the compiled side is another function: what it returns is all the referee sees of it.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils._python_dispatch import _disable_current_modes

from minimizer.inside.referee import referee, steadiness
from minimizer.inside.referee.call import Call, Function, Side
from minimizer.inside.referee.distance import Distance
from minimizer.inside.referee.jumps import JumpsDiffer
from minimizer.inside.referee.known import Known
from minimizer.inside.referee.perturbation import Perturbation
from minimizer.inside.referee.provenance import Mark, MarkedRun
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.reruns import Reruns
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.rulings import Ruling
from minimizer.inside.values.boundary import Difference
from minimizer.inside.values.rounding import tensors
from minimizer.inside.values.snapshot import global_state
from minimizer.inside.wire import plain


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def judged(
    function: Function, inputs: list[Any], compiled: Function | None = None, *, grad: bool | None = None, **options: Any
) -> Verdict:
    """The verdict on one call; the compiled side is a real compilation where none is given."""
    call = Call.now(function, inputs, **options)
    if grad is not None:
        call = replace(call, switches=replace(call.switches, grad=grad))
    return judge(call, call.run(function), call.run(compiled or torch.compile(function)))


def judged_gradients(function: Function, inputs: list[Any], compiled: Function) -> Verdict:
    call = Call.now(function, inputs).behind(None)
    return judge(call, call.run(function), call.run(compiled))


# --- what is told of eager's side -----------------------------------------------------------------------------------------------


class Own(torch.Tensor):
    pass


NAN, ONES = torch.tensor([1.0, float("nan")]), torch.ones(3)


@pytest.mark.parametrize(
    ("values", "does"),
    [
        (ONES, True),
        (torch.nn.Parameter(ONES), True),
        (torch.arange(3), True),
        (torch.ones(2, dtype=torch.bool), True),
        (torch.ones(2, dtype=torch.complex64).conj(), True),
        (torch.tensor([float("inf")]), True),
        (torch.ones(0), True),
        ([ONES, (None, 3, 1.0, True)], True),
        (NAN, False),
        (NAN.half(), False),
        (torch.complex(NAN, torch.ones(2)), False),
        ([ONES, {"a": NAN}], False),
        ((ONES, float("nan")), False),
        (torch.eye(2).to_sparse(), False),
        (ONES.as_subclass(Own), False),
        (object(), False),
    ],
)
def test_what_has_no_nan_and_is_usual_equals_itself(values: Any, does: bool) -> None:
    assert referee.equals_itself(values) is does


def test_nan_is_told_of_what_is_compared() -> None:
    nan = lambda x: x / x  # noqa: E731
    wrong = lambda x: x / x + 1  # noqa: E731
    assert judged(nan, [torch.ones(2)], wrong).equals_itself is True
    assert judged(nan, [torch.tensor([0.0, 1.0])], wrong).equals_itself is False
    number = lambda x: x.nan_to_num(1.0)  # noqa: E731
    assert judged(number, [NAN], lambda x: x.nan_to_num(2.0)).equals_itself
    assert not judged(number, [NAN], number).equals_itself  # no fault
    in_place = judged(number, [NAN], lambda x: (x.nan_to_num(1.0), x.zero_())[0])
    assert in_place.fault and not in_place.equals_itself


@pytest.mark.parametrize(("start", "does"), [([1.0, 4.0], True), ([1.0, 0.0], False)])
def test_nan_is_told_of_gradients(start: list[float], does: bool) -> None:
    x = torch.tensor(start, requires_grad=True)
    verdict = judged_gradients(lambda x: x.sqrt() * 0.0 + x, [x], lambda x: x.sqrt() * 0.0 + 2 * x)
    assert verdict.fault and verdict.equals_itself is does


# --- what is undefined ----------------------------------------------------------------------------------------------------------


BEYOND = [float("nan"), float("inf"), 300.0, -200.0, 5.0, -7.9]
"""The first four have no place in eight bits."""


@pytest.mark.parametrize(
    "after",
    [
        lambda codes: codes,
        lambda codes: codes.float() * 0.5,
        lambda codes: codes > 3,
        lambda codes: codes.long() % 5,
        lambda codes: codes.flip(0).cumsum(0),
    ],
)
def test_a_conversion_to_an_integer_type_that_cannot_hold_it_may_give_anything(after: Function) -> None:
    def saturating(x: torch.Tensor) -> torch.Tensor:
        return after(x.nan_to_num(77.0).clamp(-128, 127).to(torch.int8))

    verdict = judged(lambda x: after(x.to(torch.int8)), [torch.tensor(BEYOND)], saturating)
    assert (verdict.fault, verdict.discrete, verdict.rule) == (False, False, "undefined")
    assert verdict.note.startswith("a float was converted to an integer type that cannot hold it: ")


def test_beside_what_is_undefined_a_fault_is_one() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        codes = x.nan_to_num().clamp(-128, 127).to(torch.int8)
        codes[4] += 1  # that of 5.0
        return codes

    assert judged(lambda x: torch.zeros(6, dtype=torch.int8).copy_(x), [torch.tensor(BEYOND)], wrong).fault
    wider = judged(lambda x: x.to(torch.int8), [torch.tensor(BEYOND)], lambda x: x.to(torch.int16))
    assert wider.kind == "wrong_metadata"


TWICE = torch.tensor([1, 3, 1, 1, -1])
"""Of a target of six: place 1 is written to three times, 3 and 5 once."""


def first_stays(write: Function) -> Function:
    """The write of values in the opposite order."""
    return lambda target, index, values: write(target, index.flip(0), values.flip(0))


def put_at(target: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    target = target + 0
    target[index] = values
    return target


@pytest.mark.parametrize(
    "write",
    [
        put_at,
        lambda target, index, values: target.index_put((index,), values) * 2,
        lambda target, index, values: target.scatter(0, index % 6, values),
        lambda target, index, values: target.index_copy(0, index % 6, values),
        lambda target, index, values: target.clone().put_(index, values) > 2,
        lambda target, index, values: target.view(2, 3).t().index_put((index % 3, index % 2), values),
        lambda target, index, values: (
            target.view(6, 1).repeat(1, 2).index_copy(0, index % 6, values.view(5, 1).expand(5, 2))
        ),
    ],
)
def test_of_several_values_that_are_written_to_one_place_any_may_stay(write: Function) -> None:
    for dtype in (torch.float32, torch.int64):
        inputs = [torch.zeros(6, dtype=dtype), TWICE, torch.arange(1, 6).to(dtype)]
        verdict = judged(write, inputs, first_stays(write))
        assert (verdict.fault, verdict.discrete, verdict.rule) == (False, False, "undefined")
        assert verdict.note.startswith("several values were written to one place: ")
        wrong = write(*inputs).clone()
        wrong[(0,) * wrong.dim()] = 7  # where nothing was written to
        assert judged(write, inputs, lambda *_, wrong=wrong: wrong).fault


def test_complex_values_that_are_written_to_one_place() -> None:
    """They may differ in a fraction, or in one part only."""
    for values in (torch.arange(1, 6) * 1j, torch.arange(1, 6) / 10 + 1j):
        inputs = [torch.zeros(6, dtype=torch.complex64), TWICE, values.to(torch.complex64)]
        assert judged(put_at, inputs, first_stays(put_at)).rule == "undefined"
        assert judged(put_at, inputs, lambda *given: put_at(*given) + torch.eye(6)[0] * 1j).fault


def test_equal_values_that_are_written_to_one_place_have_one_result() -> None:
    """``mask[index] = True`` is defined whatever repeats; a sum is too."""
    inputs = [torch.zeros(6), TWICE, torch.ones(5)]
    assert judged(put_at, inputs, lambda target, index, values: put_at(target, index, values * 2)).fault
    summed = lambda target, index, values: target.index_put((index,), values, accumulate=True)  # noqa: E731
    assert judged(summed, [torch.zeros(6), TWICE, torch.arange(1.0, 6.0)], put_at).fault


def test_legal_rounding_beside_what_is_undefined_is_none_of_it() -> None:
    x = torch.tensor([300.0, 2.0])
    program = lambda x: x.to(torch.int8).float().mul(3).sin()  # noqa: E731
    rounded = lambda x: program(x) * torch.tensor([0.5, 1 + 1e-6])  # noqa: E731
    assert judged(program, [x], rounded).rule == "undefined"


def test_an_operator_of_the_scripts_own_is_not_taken_for_one_of_pytorchs() -> None:
    """Whatever it is called: what repeats in its operands may be no write at all."""
    with torch.library._scoped_library("undefined_test", "FRAGMENT") as library:
        library.define("put(Tensor target, Tensor index, Tensor source) -> Tensor")
        library.impl("put", lambda target, index, source: target + source.sum(), "CPU")
        put = torch.ops.undefined_test.put
        inputs = [torch.zeros(6), TWICE, torch.arange(1.0, 6.0)]
        assert judged(put, inputs, lambda *given: put(*given) + (torch.arange(6) == 1)).fault


def test_a_graph_that_converts_plain_numbers_can_be_judged() -> None:
    """As one does that differentiates forward over reverse: ``0.05 * y`` comes as a conversion of 0.05."""
    graphs: list[Function] = []

    def keep(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Function:
        graphs.append(graph)
        return graph

    x = torch.arange(4.0).reshape(2, 2)
    torch.compile(torch.func.hessian(lambda x: 0.05 * (x - torch.eye(2)).square().sum()), backend=keep)(x)
    (graph,) = graphs
    assert judged(graph, [x], lambda x: [result + 1 for result in graph(x)]).fault
    assert not judged(graph, [x], graph).fault


def test_a_conversion_of_what_the_type_holds_has_one_result() -> None:
    limits = torch.tensor([-128.9, 126.9, 0.0])
    assert judged(lambda x: x.to(torch.int8), [limits], lambda x: x.round().clamp(-128, 127).to(torch.int8)).fault
    huge = torch.tensor([-(2.0**63), 2.0**62])
    assert judged(lambda x: x.to(torch.int64), [huge], lambda x: x.to(torch.int64) + 1).fault
    assert not judged(lambda x: x.to(torch.int64), [torch.tensor([2.0**63])], lambda x: x.to(torch.int64) + 1).fault


# --- fp64 -----------------------------------------------------------------------------------------------------------------------


def test_healthy_rounding_is_no_fault() -> None:
    x = torch.randn(200, 200)
    verdict = judged(torch.matmul, [x, x], lambda a, b: (a.double() @ b.double()).float())
    assert (verdict.fault, verdict.rule) == (False, "fp64")
    assert verdict.compiled_error is not None and verdict.eager_error is not None
    assert verdict.compiled_error < verdict.eager_error


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Function) -> None:
        self._function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self._function(*args)


def rounded_and_copied(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.clone()


def test_a_place_that_is_known_to_be_rounded_takes_no_second_run() -> None:
    eager, known = Counted(rounded_and_copied), Known()
    runs = []
    for _ in range(2):
        call = Call.now(eager, [torch.rand(8)])
        expected, actual = call.run(eager), call.run(lambda x: (x.sin() * (1 + 2**-23), x.clone()))
        before = eager.calls
        assert not judge(call, expected, actual, known).fault
        runs.append(eager.calls - before)
    assert known.rounded == {"output[0]"}
    assert runs == [1, 0]


def test_a_copy_that_is_off_by_a_bit_is_a_fault_beside_a_place_that_is_known_to_be_rounded() -> None:
    call = Call.now(rounded_and_copied, [torch.rand(8)])
    expected, actual = call.run(rounded_and_copied), call.run(lambda x: (x.sin(), x * (1 + 2**-23)))
    verdict = judge(call, expected, actual, Known({"output[0]"}))
    assert (verdict.fault, verdict.differences[0].where) == (True, "output[1]")


def scaled(x: torch.Tensor, scale: torch.Tensor, by: float = 0.7) -> torch.Tensor:
    return (x + 0.37) * by * 1.3 * 0.9 * scale * 0.99


def test_overflow_that_both_sides_share_is_no_fault_beside_rounding() -> None:
    """The first scale of a GradScaler: products overflow in float16 and not in double precision."""
    x = torch.cat([torch.linspace(1, 2, 256), torch.linspace(3, 4, 256)]).half()  # none at the edge of the overflow
    scale = torch.full((512,), 3e4, dtype=torch.half)

    def rounded_once(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return scaled(x.float(), scale.float()).half()

    def wrong(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return scaled(x.float(), scale.float(), by=0.72).half()

    eager, compiled = scaled(x, scale), rounded_once(x, scale)
    assert eager.isinf().any() and torch.equal(eager.isinf(), compiled.isinf())
    assert not judged(scaled, [x, scale], rounded_once).fault
    assert judged(scaled, [x, scale], wrong).fault


def test_a_fault_beside_infinities_is_one() -> None:
    """A mask of infinities, as attention adds it, is moved by no rounding."""
    mask = torch.triu(torch.full((8, 8), float("-inf")), 1)
    scores = lambda x, mask: (x @ x.T + mask).softmax(-1)  # noqa: E731
    assert judged(scores, [torch.randn(8, 8), mask], lambda x, mask: scores(x, mask) * 1.01).fault
    assert judged(lambda x: x.sin() * float("inf"), [torch.full((4,), 2.0)], torch.zeros_like).fault


def masked(x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    return x.sin() * 0.7 + hidden.float() * -1e9


@pytest.mark.parametrize(("factor", "fault"), [(1 + 1e-7, False), (1.5, True)])
def test_a_mask_that_is_rounded_by_64_excuses_nothing_beside_it(factor: float, fault: bool) -> None:
    hidden = torch.arange(64) >= 60
    verdict = judged(masked, [torch.rand(8, 64), hidden], lambda x, hidden: masked(x, hidden) * factor)
    assert verdict.fault is fault
    if fault:
        assert verdict.compiled_error == pytest.approx(0.5, rel=1e-3), "of what is wrong, and not of the mask"


def test_tiny_values_within_the_tolerance_are_no_fault_beside_others_that_rounding_moves() -> None:
    def tails(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x * 0.7 + 1e6) - 1e6, x * 1e-38 * 0.01])

    def flushed(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([(x * 0.7 + 1e6) - 1e6 + 0.0625, torch.zeros_like(x)])

    verdict = judged(tails, [torch.rand(64) + 1], flushed)
    assert (verdict.fault, verdict.note) == (False, "amplified rounding")


def attention(scores: torch.Tensor, values: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
    return (scores.sin().masked_fill(padded, -1e9).softmax(-1) @ values) * 0.5


@pytest.mark.parametrize(("shift", "fault"), [(0.0, False), (0.5, True)])
def test_a_row_that_is_padded_throughout_excuses_no_other(shift: float, fault: bool) -> None:
    padded = torch.zeros(8, 16, dtype=torch.bool)
    padded[4:] = True

    def compiled(*inputs: torch.Tensor) -> torch.Tensor:
        result = attention(*inputs).double()
        result[0, 0] += shift
        return (result * (1 + 1e-9)).float()

    assert judged(attention, [torch.rand(8, 16), torch.rand(16, 4) * 4, padded], compiled).fault is fault


def test_what_cancels_to_little_is_judged_by_the_rounding_of_what_it_came_of() -> None:
    def steep(x: torch.Tensor) -> torch.Tensor:
        return (x * 0.7 + 1e6) - 1e6

    def other_roundings(x: torch.Tensor) -> torch.Tensor:
        return (x * 0.7 + 1e6) - 1e6 + 0.0625

    verdict = judged(steep, [torch.logspace(-6, 2, 4000)], other_roundings)
    assert (verdict.fault, verdict.note) == (False, "amplified rounding")


def cancelling(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Normalized values add up to nothing: what is left of the gradient of ``last`` is what the means were off by."""
    return torch.conv2d(F.batch_norm(torch.conv2d(x, weight, bias), None, None, None, None, True), last)


def test_healthy_sums_of_normalized_values_are_no_fault() -> None:
    compiled = torch.compile(cancelling)
    found = []
    for seed in (0, 59, 63, 102, 127, 128):  # here a kernel's sums are far from eager's
        torch.manual_seed(seed)
        inputs = [torch.randn(2, 1, 9, 10), torch.randn(1, 1, 1, 1), torch.randn(1)]
        found.append(judged_gradients(cancelling, [*inputs, torch.ones(1, 1, 1, 1, requires_grad=True)], compiled))
    assert not any(verdict.fault for verdict in found)
    off = judged_gradients(
        cancelling, [*inputs, torch.ones(1, 1, 1, 1, requires_grad=True)], lambda *a: compiled(*a) + a[-1]
    )
    assert off.fault


def test_healthy_softmax_in_bf16() -> None:
    verdict = judged(lambda x: (x @ x).softmax(-1), [torch.randn(64, 64).bfloat16()])
    assert not verdict.fault and not verdict.discrete


@pytest.mark.quality("slow")
def test_one_bad_element_of_16_million_is_a_fault_though_the_norm_is_blind() -> None:
    def bad(x: torch.Tensor) -> torch.Tensor:
        result = x.sin()
        result[4000, 7] += 0.3
        return result

    verdict = judged(torch.sin, [torch.randn(4096, 4096)], bad, grad=False)
    assert (verdict.fault, verdict.kind) == (True, "wrong_output")
    assert verdict.differences[0].index == (4000, 7)


def test_the_worst_element_decides_where_the_norm_is_within_bounds() -> None:
    truth = torch.randn(10_000, dtype=torch.float64)
    eager = truth + 1e-3 * torch.randn(10_000, dtype=torch.float64)
    compiled = eager.clone()
    compiled[17] += 0.05
    error = Distance.of(compiled, truth)
    of_eager = Distance.of(eager, truth)
    assert error.norm < 3 * of_eager.norm
    assert error.exceeds(of_eager, 1e-7, truth, eager, compiled, torch.float32)


def test_the_norm_decides_where_no_element_is_worse_than_eager_s_worst() -> None:
    truth = torch.ones(10_000, dtype=torch.float64)
    eager, compiled = truth.clone(), truth + 1e-3
    eager[3] += 2e-3
    error, of_eager = Distance.of(compiled, truth), Distance.of(eager, truth)
    assert error.worst < of_eager.worst
    assert error.exceeds(of_eager, 1e-7, truth, eager, compiled, torch.float32)


def test_zeros_for_5e_4_are_a_fault() -> None:
    verdict = judged(lambda x: x * 5e-4, [torch.ones(100)], lambda x: x * 0)
    assert (verdict.fault, verdict.rule, verdict.compiled_error) == (True, "fp64", 1.0)


def test_eager_may_be_the_less_accurate_side() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return (x * x).sum(-1).rsqrt()  # the square is 0 in float16, and is not rounded to it within a kernel

    verdict = judged(norm, [torch.full((3, 5), 1e-4, dtype=torch.float16)])
    assert [difference.what for difference in verdict.differences] == ["inf"]
    assert (verdict.fault, verdict.rule) == (False, "fp64")


def test_the_script_s_own_check_is_a_failure_whatever_the_referee_thinks() -> None:
    def exact(x: torch.Tensor) -> torch.Tensor:
        return x.float().exp().half()

    x = torch.randn(100).half()
    nearby = lambda x: exact(x) * 1.0005  # noqa: E731
    assert not judged(exact, [x], nearby, tolerance={"rtol": 1e-2, "atol": 0}).fault
    verdict = judged(exact, [x], nearby, tolerance={"rtol": 0, "atol": 0, "equal_nan": True})
    assert (verdict.fault, verdict.rule) == (True, "the script's own tolerance")


def test_var_rsqrt_in_half_can_be_reduced_under_the_script_s_own_check() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.var(dim=-1, keepdim=True) + 1e-9)

    x = torch.full((3, 5), 1e-10, dtype=torch.float16)
    assert judged(norm, [x], lambda x: norm(x.float()).half(), tolerance={}).fault


def sine_and_mean(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.mean()


def test_a_long_sum_excuses_only_what_it_flows_into() -> None:
    x = torch.randn(2048, 512)
    verdict = judged(sine_and_mean, [x], lambda x: (x.sin() * (1 + 2e-4), x.mean() * (1 + 1e-5)))
    assert verdict.fault
    assert [difference.where for difference in verdict.differences] == ["output[0]"]


@pytest.mark.parametrize(
    ("function", "shapes", "terms"),
    [
        (lambda x: x.sum(-1), [(64, 512)], 512),
        (lambda x: (x.view(-1).cos() + 1).view(64, 512), [(64, 512)], 1),
        (lambda x: x.mean(), [(64, 512)], 64 * 512),
        (lambda x: x.softmax(0), [(64, 512)], 64),
        (lambda x: x.cumsum(0), [(64, 512)], 64),
        (lambda x: x.logsumexp(1) + 1, [(64, 512)], 512),
        (lambda x: F.layer_norm(x, (512,)), [(64, 512)], 512),
        (lambda x: F.batch_norm(x, None, None, training=True), [(64, 4, 8)], 64 * 8),
        (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), [(64, 4, 8)], 1),
        (torch.matmul, [(64, 512), (512, 2000)], 512),
        (lambda x, w: F.linear(x, w, torch.ones(2000)), [(64, 512), (2000, 512)], 512),
        (torch.baddbmm, [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 4),
        (F.conv2d, [(2, 3, 64, 64), (8, 3, 5, 5)], 8 * 25),
        (F.scaled_dot_product_attention, [(1, 2, 300, 16)] * 3, 300),
        (lambda x: F.avg_pool2d(x, 3, 1), [(1, 1, 9, 9)], 9),
        (lambda x: torch.zeros(9, 4).index_add(0, torch.zeros(70, dtype=torch.int64), x), [(70, 4)], 70),
        (lambda x: torch.zeros(9, 4).index_put((torch.zeros(70).long(),), x, accumulate=True), [(70, 4)], 70),
        (lambda x: torch.zeros(70, 4).scatter_add(0, torch.zeros(70, 4).long(), x), [(70, 4)], 70),
        (lambda x: torch.zeros(64, 2).copy_(x.sum(-1, keepdim=True)), [(64, 512)], 512),
        (lambda x: torch._foreach_mul([x, x[0, :1]], 2)[0], [(64, 512)], 1),
    ],
)
def test_how_long_a_sum_has_flowed_into_a_value(function: Function, shapes: list[tuple[int, ...]], terms: int) -> None:
    inputs = [torch.randn(shape) for shape in shapes]
    with MarkedRun() as run:
        result = function(*inputs)
    assert run.terms_in(result) == terms


def test_sums_of_a_backward_are_long_too() -> None:
    x, w = torch.randn(2, 3, 32, 32), torch.randn(8, 3, 3, 3, requires_grad=True)
    with MarkedRun() as run:
        (gradient,) = torch.autograd.grad(F.conv2d(x, w).sum(), [w])
    assert run.terms_in(gradient) == 2 * 30 * 30
    x = torch.randn(64, 512, requires_grad=True)
    with MarkedRun() as run:
        (gradient,) = torch.autograd.grad(F.layer_norm(x, (512,)).sum(), [x])
    assert run.terms_in(gradient) == 512


def test_casts_to_lower_precision_vanish_in_the_truth() -> None:
    x = torch.randn(64)
    truth = referee.upcast(Call.now(lambda x: (x.half() * torch.ones(64, dtype=torch.bfloat16)).float().exp(), [x]))
    assert truth.dtype is torch.float64
    assert torch.equal(truth, x.double().exp())


def test_the_truth_keeps_storage_sharing_and_does_not_touch_the_inputs() -> None:
    base = torch.zeros(4)

    def write(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return b * 2

    assert referee.upcast(Call.now(write, [base[:3], base[1:]])).tolist() == [2, 2, 0]
    assert base.tolist() == [0, 0, 0, 0]


def branching(x: torch.Tensor) -> torch.Tensor:
    return x.exp() if x.dtype is torch.float16 else x.exp() + 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nextafter(x, x + 1),
        lambda x: x.view(torch.int16) & 1,
        lambda x: torch.frexp(x).mantissa,
        lambda x: x.clamp(min=torch.finfo(x.dtype).min) + torch.finfo(x.dtype).eps,
        lambda x: torch.poisson(x.abs()),
        branching,
    ],
    ids=["nextafter", "view(dtype)", "frexp", "finfo", "random", "branch on dtype"],
)
def test_fp64_is_invalid_for(function: Function) -> None:
    assert referee.upcast(Call.now(function, [torch.randn(8).half()])) is None


def test_real_nextafter_fault_is_found_though_compiled_is_closer_to_fp64() -> None:
    x = torch.linspace(-2, 2, 33).bfloat16()
    verdict = judged(torch.nextafter, [x, torch.full_like(x, 4.0)])
    assert (verdict.fault, verdict.kind) == (True, "wrong_output")


def captured(function: Function, *inputs: torch.Tensor) -> Function:
    """The graph that Dynamo makes of a function, as a survey has it."""
    graphs: list[Function] = []

    def keep(graph: Function, _: Any) -> Function:
        graphs.append(graph)
        return graph

    torch.compile(function, backend=keep, fullgraph=True)(*inputs)
    return lambda *args: graphs[0](*args)[0]


@pytest.mark.parametrize(("error", "fault"), [(0.0, False), (5e-2, True)])
def test_sums_in_the_branches_of_a_higher_order_operator_are_judged_as_others_are(error: float, fault: bool) -> None:
    x, chosen = torch.randn(256, 16384), torch.tensor(True)
    graph = captured(lambda p, x: torch.cond(p, lambda t: t.sum(-1), lambda t: t.cos().sum(-1), (x,)), chosen, x)
    verdict = judged(graph, [chosen, x], lambda _, x: x.flip(-1).sum(-1) + error)
    assert verdict.fault == fault
    assert verdict.rule == "fp64"


@pytest.mark.parametrize(("factor", "fault"), [(1 + 1e-7, False), (1 + 1e-3, True)])
def test_the_bodies_of_a_scan_are_seen(factor: float, fault: bool) -> None:
    from torch._higher_order_ops.scan import scan

    x = torch.randn(20, 8)
    graph = captured(lambda x: scan(lambda carry, y: (carry + y * 1.1, carry.sin()), x[0].clone(), x, dim=0)[1], x)
    assert judged(graph, [x], lambda x: graph(x) * factor).fault == fault


def test_without_fp64_an_element_within_the_tolerance_of_its_dtype_is_no_fault() -> None:
    x = torch.tensor([1e-4, 1.0]).bfloat16()
    function = lambda x: torch.nextafter(x, x) * 1.5  # noqa: E731

    def compiled(x: torch.Tensor) -> torch.Tensor:
        return function(x) + torch.tensor([8e-6, 0.0]).bfloat16()

    far = compiled(x) + torch.tensor([0, 0.1]).bfloat16()
    verdict = judge(Call.now(function, [x]), Side(function(x), [x]), Side(far, [x]))
    assert verdict.fault
    assert not judged(function, [x], compiled).fault


def test_without_fp64_the_referee_is_eager_with_a_bound_in_ulps() -> None:
    x = torch.randn(100).half()
    near = judged(branching, [x], lambda x: (x.float().exp() * 1.002).half())
    assert (near.fault, near.rule) == (False, "ulps")
    far = judged(branching, [x], lambda x: (x.float().exp() * 1.1).half())
    assert far.fault and far.rule is Ruling.ULPS
    assert far.why.startswith("no fp64: the program branches on a dtype")


def bits_of(x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x.sin() * 0.7).masked_fill(hidden, float("-inf")), x.view(torch.int32) & 1


@pytest.mark.parametrize("wrong", [-123.0, float("nan")])
def test_without_fp64_infinities_that_both_sides_have_excuse_nothing_beside_them(wrong: float) -> None:
    def compiled(x: torch.Tensor, hidden: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, bits = bits_of(x, hidden)
        values[0] = wrong
        return values, bits

    inputs = [torch.rand(64), torch.arange(64) >= 60]
    assert judged(bits_of, inputs, compiled).fault
    assert not judged(bits_of, inputs, bits_of).fault


def test_without_fp64_nan_is_excused_by_redrawn_runs_with_nan_and_by_nothing_else() -> None:
    def steep(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([(x * 0.7 + 1e4) - 1e4, x * 0.7]), x.view(torch.int32) & 1

    def compiled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, bits = steep(x)
        values[100] = float("nan")
        return values, bits

    assert judged(steep, [torch.rand(64)], compiled).fault

    def root(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return ((x * 0.7 + 1e4) - 1e4 - x * 0.7).sqrt(), x.view(torch.int32) & 1

    def other_roundings(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return ((x * 0.7000001 + 1e4) - 1e4 - x * 0.7).sqrt(), x.view(torch.int32) & 1

    assert not judged(root, [torch.rand(256)], other_roundings).fault


# --- exact values ---------------------------------------------------------------------------------------------------------------


def test_wrong_integers_with_exact_producers_are_a_fault() -> None:
    x = torch.randint(0, 100, (50,), dtype=torch.int8)
    verdict = judged(torch.argmax, [x], lambda x: torch.argmax(x) + 1)
    assert verdict.fault and verdict.rule is Ruling.EXACT


def test_real_floor_division_of_given_inputs_is_a_fault() -> None:
    v, w = torch.tensor([1.0, 0.5, 6.0, 1.0]), torch.tensor([0.1, 0.1, 0.2, 1 / 3])
    verdict = judged(lambda v, w: v // w, [v, w])
    assert (verdict.fault, verdict.kind, verdict.discrete) == (True, "wrong_output", False)


def test_values_that_are_only_moved_have_to_be_the_same_bits() -> None:
    def move(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.t(), x.relu().flip(0)])

    x = torch.randn(8, 8)
    assert judged(move, [x], lambda x: move(x) * (1 + 1e-7)).fault
    assert not judged(move, [x], lambda x: move(x) + 0.0).fault
    subnormal = torch.full((2, 2), 1e-40)
    assert not judged(move, [subnormal], lambda x: move(x) * 0).fault


def test_running_statistics_are_rounded_though_no_schema_says_that_they_are_written() -> None:
    def normalize(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, mean, var, training=True)

    inputs = [torch.randn(4, 8, 16), torch.zeros(8), torch.ones(8)]
    verdict = judged(normalize, inputs, lambda x, m, v: (normalize(x, m, v), m.mul_(1 + 1e-7))[0])
    assert not verdict.fault


COMPLEX, HALF, PLACES = torch.randn(8, dtype=torch.complex64), torch.randn(8).bfloat16(), torch.tensor([0, 1] * 4)


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.round(decimals=2),
        lambda x: torch._foreach_abs([COMPLEX]),
        lambda x: COMPLEX.sgn(),
        lambda x: x.scatter(0, PLACES, x, reduce="add"),
        lambda x: x.scatter(0, PLACES, 1.1, reduce="multiply"),
        lambda x: x.put(PLACES, x, accumulate=True),
        lambda x: x.clone().put_(PLACES, x, True),
        lambda x: x.index_put((PLACES,), x, accumulate=True),
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
        lambda x: torch.fake_quantize_per_channel_affine(x, x.abs(), torch.zeros(8).int(), 0, -128, 127),
        lambda x: x.remainder(0.3),
        lambda x: HALF.clone().copy_(x),
        lambda x: x.bfloat16(),
        lambda x: torch._foreach_copy_([HALF.clone()], [x]),
        lambda x: torch.where(HALF > 0, HALF, x[0]),
        lambda x: HALF.maximum(x[0]),
        lambda x: HALF.masked_fill(HALF > 0, x[0]),
        lambda x: torch.fill(HALF, x[0]),
        lambda x: HALF.slice_scatter(x[:3], 0, 0, 3),
        lambda x: torch.full((3,), x.sum().item()),
        lambda x: torch.ops.aten._native_batch_norm_legit(
            x.view(4, 2), None, None, torch.zeros(2), torch.ones(2), True, 0.1, 1e-5
        )[0],
        lambda x: torch.ops.referee_tests.clamp(x),
    ],
)
def test_operators_that_seem_exact_and_round(function: Function, library: None) -> None:
    x = torch.randn(8)
    with MarkedRun() as run:
        results = tensors(function(x))
    assert results
    assert all(run.marks(result) is Mark.ROUNDED for result in results)


@pytest.fixture
def library() -> Iterator[None]:
    """An operator of somebody else's with the name of an exact one."""
    with torch.library._scoped_library("referee_tests", "DEF") as library:
        library.define("clamp(Tensor x) -> Tensor")
        library.impl("clamp", lambda x: x * 1.1, "CPU")
        yield


@pytest.mark.parametrize(
    "function",
    [
        torch.round,
        torch.sgn,
        torch.abs,
        lambda x: x.scatter(0, PLACES, x),
        lambda x: x.put(PLACES, x),
        lambda x: x.index_put((PLACES,), x),
        lambda x: x.fmod(0.3),
        lambda x: x.div(0.3, rounding_mode="floor"),
        lambda x: torch.where(x > 0, x, HALF),
        lambda x: x.clamp(HALF[0], 2.0),
        lambda x: x.clone().copy_(HALF),
        lambda x: torch.full((3,), x.sort()[0][0].item()),
        lambda x: torch.ones_like(x.sin()),
        torch.frexp,
    ],
)
def test_operators_that_are_exact(function: Function) -> None:
    x = torch.randn(8)
    with MarkedRun() as run:
        results = tensors(function(x))
    assert all(run.marks(result) is Mark.EXACT for result in results)


def test_real_rounding_to_decimals_is_no_fault_and_an_error_in_it_is_one() -> None:
    to_cents = lambda x: torch.round(x, decimals=2)  # noqa: E731
    x = torch.randn(4000) * 3
    assert not torch.equal(torch.compile(to_cents)(x), to_cents(x)), (
        "it rounds as eager does now: choose another example"
    )
    assert not judged(to_cents, [x]).fault
    assert judged(to_cents, [x], lambda x: to_cents(x) + 0.01).fault


def test_rounding_to_decimals_of_what_is_rounded_is_a_step_too() -> None:
    x = torch.randn(8)
    with MarkedRun() as run:
        result = torch.round(x.sin(), decimals=2)
        integers = torch.linspace(0, 1000, 777, dtype=torch.int32)
    assert run.marks(result) == Mark.ROUNDED | Mark.DISCRETE
    assert run.marks(integers) is Mark.DISCRETE


# --- behind a jump --------------------------------------------------------------------------------------------------------------


def steps(x: torch.Tensor) -> torch.Tensor:
    return (F.gelu(F.layer_norm(x, (256,))) * 640).round().int()


def test_healthy_layer_norm_gelu_round_is_a_suspect_and_no_fault() -> None:
    verdict = judged(steps, [torch.randn(4000, 256)])
    assert verdict.differences, "the compiler rounds as eager does now: choose another example"
    assert (verdict.fault, verdict.discrete) == (False, True)


def test_wrong_discrete_values_are_a_suspect_and_no_fault() -> None:
    verdict = judged(steps, [torch.randn(400, 256)], lambda x: steps(x) + 1)
    assert (verdict.fault, verdict.discrete) == (False, True)


JUMPS: dict[str, Function] = {
    "argmax": lambda x, w: w[(x @ w).argmax(-1)],
    "floor": lambda x, w: (x @ w).sum(-1, keepdim=True).floor() + x,
    "round": lambda x, w: x * w[0] + ((x * w[0] * 16).round() / 16 - x * w[0]).detach(),
    "sign": lambda x, w: x * (x @ w).sum(-1, keepdim=True).sign(),
    "cast": lambda x, w: w[((x @ w).sigmoid() * 30).long()[..., 0]],
    "threshold": lambda x, w: torch.where((x @ w).sum(-1, keepdim=True) > 0.1, x, 0.5 * x),
    "topk": lambda x, w: x.gather(-1, (x @ w).topk(32).indices),
    "bucketize": lambda x, w: w[torch.bucketize((x @ w).sum(-1), torch.linspace(-2, 2, 30))],
}
DTYPES = [torch.float32, torch.bfloat16]


def behind(jump: str, relu: Function, x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return relu(JUMPS[jump](x, w) @ v) @ v.T


def of_a_layer(dtype: torch.dtype, *, grad: bool = False) -> list[torch.Tensor]:
    shapes = (4, 16, 32), (32, 32), (32, 64)
    return [(torch.randn(shape) / 4).to(dtype).requires_grad_(grad) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_wrong_value_behind_a_jump_is_not_excused(jump: str, dtype: torch.dtype) -> None:
    """In bfloat16 any redrawn rounding moves nearly all elements behind a jump: how many move says nothing."""
    wrong = partial(behind, jump, lambda v: v.relu() + 1)
    verdict = judged(partial(behind, jump, torch.relu), of_a_layer(dtype), wrong)
    assert verdict.fault or verdict.discrete


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("jump", JUMPS)
def test_a_wrong_gradient_behind_a_jump_is_not_excused(jump: str, dtype: torch.dtype) -> None:
    wrong = partial(behind, jump, lambda v: v.relu() + v)
    verdict = judged_gradients(partial(behind, jump, torch.relu), of_a_layer(dtype, grad=True), wrong)
    assert verdict.fault or verdict.discrete


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("jump", JUMPS)
def test_rounding_behind_a_jump_that_was_taken_as_eager_took_it_is_no_suspect(jump: str, dtype: torch.dtype) -> None:
    """What cancels there is off by more than a last bit, and must not cost another run of the script."""

    def cancel(h: torch.Tensor) -> torch.Tensor:
        return (h * (1 + 3 * torch.finfo(dtype).eps) - h) * 1024

    def compiled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return cancel(JUMPS[jump](x, w).double()).to(x.dtype)

    verdict = judged(lambda x, w: cancel(JUMPS[jump](x, w)), of_a_layer(dtype)[:2], compiled)
    assert verdict.differences
    assert (verdict.fault, verdict.discrete) == (False, False)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_jump_that_a_legal_rounding_turns_is_a_suspect_and_no_fault(gradients: bool) -> None:
    """One row of many goes the other way, which no redrawn rounding need show."""

    def route(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x * w[(x @ w).argmax(-1)]

    def compiled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        choice = (x @ w).argmax(-1)
        return x * w[torch.where(torch.arange(len(x)) == 7, (choice + 1) % 32, choice)]

    x, w = torch.randn(4000, 32, requires_grad=gradients), torch.randn(32, 32, requires_grad=gradients)
    verdict = judged_gradients(route, [x, w], compiled) if gradients else judged(route, [x, w], compiled)
    assert verdict.differences
    assert (verdict.fault, verdict.discrete) == (False, True)


def test_nan_behind_a_jump_is_a_fault_and_a_suspect_the_other_way_round() -> None:
    """The backward of ``amax`` divides by how many elements equal the largest: none does where it is computed anew without rounding."""

    def largest(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x + w).amax(dim=-1, keepdim=True).expand(-1, 8) * w

    def compiled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        result = largest(x, w)
        result.register_hook(lambda grad: grad * torch.nan)
        return result

    x, w = (torch.randn(4, 8, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    verdict = judged_gradients(largest, [x, w], compiled)
    assert (verdict.fault, verdict.kind, verdict.rule) == (True, "wrong_gradient", "NaN behind a jump")
    other = judged_gradients(compiled, [x, w], largest)
    assert not other.fault


def test_nan_behind_a_jump_that_double_precision_has_too_is_a_suspect_and_a_fault_where_it_has_not() -> None:
    """An input that eager rounded equals eager's quotient alone, which no run with more precision has to find again."""

    def share(x: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
        winners = (x / 0.37 == best).to(x.dtype)
        return winners / winners.sum(-1, keepdim=True)

    def in_float(x: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
        return share(x.float(), best.float()).to(x.dtype)

    x = torch.randn(4, 8, dtype=torch.bfloat16)
    best = (x / 0.37).amax(-1, keepdim=True)
    verdict = judged(share, [x, best], in_float)
    assert (verdict.fault, verdict.discrete) == (False, True)

    found = judged(lambda x: share(x, (x / 0.37).amax(-1, keepdim=True)), [x], lambda x: in_float(x, best))
    assert (found.fault, found.rule) == (True, "NaN behind a jump")


def test_a_rerun_that_comes_to_other_jumps_measures_nothing() -> None:
    with MarkedRun() as run:
        torch.randn(4).sin().round()
    same = run.jumps.again()
    x = torch.randn(4)
    with pytest.raises(JumpsDiffer):
        same.take(torch.ops.aten.floor.default, (x,), {}, x.floor())


def test_discrete_producers_are_jumps_fed_with_rounded_values() -> None:
    def many(v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            v // w,
            (v * w).round(),
            v * w > 0,
            v > 0,
            v.argmax(),
            (v + w).argsort(),
            v * w,
            torch.where(v * w > 0, v, w),
        )

    with MarkedRun() as run:
        results = many(torch.randn(4), torch.randn(4))
    assert [n for n, result in enumerate(results) if Mark.DISCRETE in run.marks(result)] == [1, 2, 5, 7]


def sine_bits(x: torch.Tensor) -> torch.Tensor:
    return x.sin().view(torch.int32)


def test_the_bits_of_a_rounded_value_are_steps_too() -> None:
    x = torch.randn(1000)
    verdict = judged(sine_bits, [x], lambda x: x.double().sin().float().view(torch.int32) + (x > 1))
    assert verdict.differences
    assert (verdict.fault, verdict.discrete) == (False, True)


def test_drawn_integers_without_a_truth_are_judged() -> None:
    bits = lambda x: (torch.rand(8) > 0.5).int() * (x.view(torch.int32) > 0)  # noqa: E731
    verdict = judged(bits, [torch.randn(8)], lambda x: bits(x) + 1, random=True)
    assert verdict.fault


def test_an_index_that_a_last_bit_moves_out_of_range_costs_no_verdict() -> None:
    def look_up(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return w[(torch.sigmoid(x) * 10).long()], torch.sin(x)

    def compiled(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return look_up(x, w)[0], x.sin() * 1.5

    x = torch.full((64,), 16.0)
    assert int((torch.sigmoid(x) * 10).max()) == 9
    verdict = judged(look_up, [x, torch.randn(10)], compiled)
    assert (verdict.fault, verdict.kind) == (True, "wrong_output")


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(4, 8), (4, 8, 3, 5)])
def test_means_of_groups_are_redrawn(shape: tuple[int, ...], layout: torch.memory_format) -> None:
    x = torch.randn(shape) + 10
    if x.dim() == 4:
        x = x.contiguous(memory_format=layout)
    with Perturbation(1):
        moved = F.group_norm(x, 2)
    expected = F.group_norm(x, 2)
    assert moved.shape == expected.shape
    assert 0 < float((moved - expected).abs().max()) < 1e-2


def test_running_means_that_terms_cancel_to_are_rounding() -> None:
    """Normalized values have a mean of zero, and so has every linear map of them: what a running mean has of that is rounding alone."""
    normalized, mix = F.batch_norm(torch.randn(256, 8), None, None, training=True), torch.randn(8, 16)

    def update(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x @ mix, mean, variance, training=True)

    def other_order(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        return update(x.flip(0), mean, variance).flip(0)

    def wrong(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        result = update(x, mean, variance)
        mean += 1e-5
        return result

    statistics = [torch.zeros(16), torch.ones(16)]
    with Perturbation(1):
        update(normalized, *statistics)
    assert float(statistics[0].abs().max()) > 0, "redrawn like every other result"
    assert not judged(update, [normalized, torch.zeros(16), torch.ones(16)], other_order).fault
    assert judged(update, [normalized, torch.zeros(16), torch.ones(16)], wrong).fault


def test_roundings_are_redrawn_under_forward_mode_ad() -> None:
    def slope(x: torch.Tensor, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, tangent = torch.func.jvp(lambda x: torch.log1p(x.square()).sum(-1), (x,), (direction,))
        return value, tangent

    x, direction = torch.randn(5, 3), torch.randn(5, 3)
    expected = slope(x, direction)
    graphs: list[torch.fx.GraphModule] = []
    torch.compile(slope, backend=lambda graph, inputs: graphs.append(graph) or graph.forward)(x, direction)
    with Perturbation(1):
        moved = graphs[0](x, direction)  # which enters the level of its tangents by itself
    for one, other in zip(expected, moved, strict=True):
        assert 0 < float((one - other).abs().max()) < 1e-5
    verdict = judged(slope, [x, direction], lambda x, d: tuple(out * 1.01 for out in slope(x, d)))
    assert (verdict.fault, verdict.kind) == (True, "wrong_output")
    assert not judged(slope, [x, direction], slope).fault


# --- noise and randomness -------------------------------------------------------------------------------------------------------


def test_uninitialised_memory_is_nondeterministic_not_a_fault() -> None:
    verdict = judged(torch.empty_like, [torch.zeros(64)], lambda x: x - 3)
    assert (verdict.fault, verdict.nondeterministic, verdict.note) == (False, True, "eager differs from eager")


def test_memory_that_is_written_before_it_is_read_is_determined() -> None:
    verdict = judged(lambda x: torch.empty_like(x).fill_(1), [torch.zeros(64)], lambda x: x - 3)
    assert (verdict.fault, verdict.nondeterministic) == (True, False)


def test_a_fault_beside_a_nondeterministic_output_is_still_a_fault() -> None:
    verdict = judged(lambda x: (torch.empty_like(x), x + 1), [torch.zeros(64)], lambda x: (x - 3, x + 2))
    assert (verdict.fault, verdict.nondeterministic) == (True, False)
    assert [difference.where for difference in verdict.differences] == ["output[1]"]


def test_another_random_stream_is_no_fault() -> None:
    verdict = judged(lambda x: F.dropout(x, 0.5), [torch.ones(200)])
    assert (verdict.fault, verdict.rule) == (False, "random stream")


def test_values_beside_random_ones_are_judged() -> None:
    verdict = judged(lambda x: (F.dropout(x), x * 2), [torch.ones(200)], lambda x: (F.dropout(x + 1), x * 3))
    assert verdict.fault
    assert [difference.where for difference in verdict.differences] == ["output[1]"]


def test_with_the_same_random_numbers_random_values_are_judged_too() -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5).exp()

    x = torch.randn(200)
    assert judged(drop, [x], lambda x: drop(x) * 1.01, random=True).rule == "fp64"
    assert judged(drop, [x], lambda x: drop(x) * 1.01, random=True).fault
    assert not judged(drop, [x], lambda x: drop(x.double()).float(), random=True).fault


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_the_dropout_of_cuda_has_a_truth(share: float) -> None:
    """It draws a mask and computes with it, and a rerun in double precision keeps the elements that eager kept."""

    def drop(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.gelu(torch.native_dropout(x @ weight, share, True)[0])

    x, weight = torch.randn(64, 64), torch.randn(64, 64, requires_grad=True)
    call = Call.now(drop, [x, weight], random=True).behind(None)
    runs = Reruns(call)
    assert runs.truth is not None, runs.why_no_truth
    torch.testing.assert_close(runs.truth["grad[0]"], runs.again["grad[0]"].double(), rtol=1e-4, atol=1e-4)
    if share < 1:
        assert judged(drop, [x, weight], lambda *given: drop(*given) * 1.01, random=True).rule == "fp64"


@pytest.mark.parametrize("grad", [False, True])
def test_flex_attention_has_a_truth(grad: bool) -> None:
    """In half precision its results are as far off as eager's, which is more than a few units in the last place."""
    flex = torch.ops.higher_order.flex_attention
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu").as_tuple()

    def attend(*given: torch.Tensor) -> torch.Tensor:
        options = {"OUTPUT_LOGSUMEXP": True, "OUTPUT_MAX": False}
        return flex(*given, lambda score, b, h, i, j: score + (j - i) * 0.5, mask, 0.25, options)[0]

    inputs = [torch.randn(1, 2, 128, 16, dtype=torch.bfloat16, requires_grad=grad) for _ in range(3)]
    call = Call.now(attend, inputs)
    runs = Reruns(call.behind(None) if grad else call)
    assert runs.truth is not None, runs.why_no_truth
    assert {tensor.dtype for where, tensor in runs.truth.items() if "input" not in where} == {torch.float64}
    if not grad:
        off = judged(attend, inputs, lambda *given: attend(*given) * 1.1)
        assert (off.fault, off.rule) == (True, "fp64")
        right = judged(attend, inputs, lambda *given: attend(*(x.float() for x in given)).bfloat16())
        assert not right.fault


class JITFunction:
    """A stand-in for a kernel of Triton: no dispatch mode sees what it computes."""

    def run(self, source: torch.Tensor, *, target: torch.Tensor, grid: tuple[int, ...]) -> None:
        with _disable_current_modes():
            target.copy_(source * 3)


@pytest.mark.parametrize("by", [1.0, 1.01])
def test_what_a_kernel_of_triton_writes_is_rounded(by: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", SimpleNamespace(JITFunction=JITFunction))  # type: ignore[arg-type]

    def scaled(x: torch.Tensor, *, off: float = 1.0) -> torch.Tensor:
        out = torch.empty_like(x)
        y = torch.sin(x.double()).float() * off if off != 1 or compiling else torch.sin(x)
        JITFunction().run(y, target=out, grid=(1,))
        return out

    compiling = False
    call = Call.now(scaled, [torch.randn(1000)])
    expected = call.run(scaled)
    compiling = True
    actual = call.run(lambda x: scaled(x, off=by))
    assert not torch.equal(expected.result, actual.result), "the last bits differ"
    compiling = False
    assert judge(call, expected, actual).fault == (by != 1)


def test_is_random_looks_at_what_is_drawn() -> None:
    x = torch.randn(1, 1, 4, 4)
    assert steadiness.is_random(F.dropout, [x])
    assert not steadiness.is_random(F.scaled_dot_product_attention, [x, x, x])


def steady(function: Callable[..., Any], inputs: list[Any], *wrong: str) -> bool:
    differences = [Difference(where, "wrong_output", "value", "1", "2") for where in wrong]
    return steadiness.steady(Call.now(function, inputs), Verdict(differences=differences)) is not None


def test_eager_that_is_seldom_different_is_not_steady() -> None:
    runs = iter([0, 0, 0, 1, 0, 0])
    assert not steady(lambda x: x + next(runs), [torch.ones(2)], "output")


def test_only_where_compiled_and_eager_differ_does_it_matter() -> None:
    runs = itertools.count()
    assert steady(lambda x: (x + next(runs), x * 2), [torch.ones(2)], "output[1]")


def test_an_exception_that_comes_and_goes_is_not_steady() -> None:
    def raises_once(x: torch.Tensor, runs: Any = itertools.count()) -> torch.Tensor:  # noqa: B008
        if next(runs) == 2:
            raise ValueError
        return x

    assert not steady(raises_once, [torch.ones(2)])


def test_random_and_mutating_functions_are_steady_and_leave_inputs_and_random_state_alone() -> None:
    x, before = torch.ones(2), torch.get_rng_state()
    assert steady(lambda x: (x.add_(1), torch.rand(2)), [x], "output[0]", "output[1]", "input[0]")
    assert torch.equal(x, torch.ones(2))
    assert torch.equal(torch.get_rng_state(), before)


# --- metadata, mutation, gradients ----------------------------------------------------------------------------------------------


def test_metadata_never_differs_legally() -> None:
    verdict = judged(lambda x: x.half() * x, [torch.randn(3)], lambda x: (x.half() * x).double())
    assert (verdict.fault, verdict.kind) == (True, "wrong_metadata")
    verdict = judged(lambda x: x.t() * 2, [torch.randn(3, 4)], lambda x: (x.t() * 2).contiguous())
    assert (verdict.fault, verdict.differences[0].what) == (True, "stride")


def test_another_memory_layout_ranks_below_every_other_difference() -> None:
    x = torch.randn(3, 4)

    def transposed(x: torch.Tensor) -> torch.Tensor:
        return x.t() * 2

    only = judged(transposed, [x], lambda x: (x.t() * 2).contiguous())
    assert only.layout_only
    typed = judged(transposed, [x], lambda x: (x.t() * 2).contiguous().requires_grad_())
    assert (typed.layout_only, [d.what for d in typed.differences]) == (False, ["requires_grad", "stride"])
    valued = judged(transposed, [x], lambda x: (x.t() * 3).contiguous())
    assert (valued.layout_only, valued.kind) == (False, "wrong_output")


def test_another_memory_layout_hides_no_suspect() -> None:
    x = torch.linspace(0, 1, 12).view(3, 4)

    def stepped(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.t() * 2, (x.sin() * 10).round()

    def compiled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x.t() * 2).contiguous(), (x.sin() * 10).round() + 1

    verdict = judged(stepped, [x], compiled)
    assert (verdict.fault, verdict.discrete, verdict.layout_only) == (False, True, False)
    assert [difference.what for difference in verdict.differences] == ["value"]


def test_a_wrong_mutation_is_wrong_output() -> None:
    def flip(x: torch.Tensor) -> torch.Tensor:
        torch._foreach_add_([x], [x.flip(0)])
        return x

    verdict = judged(flip, [torch.rand(8, 8)], lambda x: x.add_(1))
    assert (verdict.fault, verdict.kind) == (True, "wrong_output")
    assert {difference.where for difference in verdict.differences} == {"output", "input[0]"}


def test_nan_in_gradients_is_wrong_gradient() -> None:
    x = torch.randn(4, 4, requires_grad=True)
    verdict = judged_gradients(lambda x: x.exp().sum(), [x], lambda x: (x.exp() * (x / x.detach() * 0 / 0 + 1)).sum())
    assert (verdict.fault, verdict.kind) == (True, "wrong_gradient")


def test_gradients_through_a_relu_are_no_suspects() -> None:
    w, x = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64)
    mlp = lambda w, x: ((x @ w).relu() @ w).relu().sum()  # noqa: E731
    assert not judged_gradients(mlp, [w, x], lambda w, x: mlp(w.double(), x.double())).fault
    verdict = judged_gradients(mlp, [w, x], lambda w, x: mlp(w, x) * 1.01)
    assert (verdict.fault, verdict.discrete) == (True, False)


def test_gradients_of_an_input_that_is_changed_in_place_are_those_of_its_value_before() -> None:
    source = torch.ones(3, requires_grad=True) * 1
    call = Call.now(lambda x: x.mul_(5), [source]).behind(None)
    found = call.run(call.function).gradients
    assert found[0] is not None and found[0].tolist() == [5, 5, 5]


def test_gradient_of_an_unused_input_is_none() -> None:
    x, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    call = Call.now(lambda x, _: x * 2, [x, unused]).behind([torch.full((2,), 3.0)])
    found = call.run(call.function).gradients
    assert found[0] is not None and found[0].tolist() == [6, 6] and found[1] is None


def test_a_verdict_can_be_sent() -> None:
    verdict = judged(lambda x: x * 5e-4, [torch.ones(3)], lambda x: x * float("nan"))
    data = json.loads(json.dumps(plain(verdict), allow_nan=False))
    assert data["fault"] is True and data["differences"][0]["what"] == "nan"


def test_judging_leaves_inputs_and_random_state_alone() -> None:
    x, state = torch.ones(3), torch.get_rng_state()
    call = Call.now(lambda x: x.add_(torch.rand(3)), [x])
    judge(call, Side(x + 1, [x + 1]), Side(x + 2, [x + 2]))
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(torch.get_rng_state(), state)


def test_switches_that_a_program_leaves_on_count_in_none_of_its_other_runs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        product = x @ x
        torch.set_autocast_enabled("cpu", True)
        torch.set_default_dtype(torch.float64)
        return product.relu() + torch.ones(4)

    x, before = torch.randn(4, 4), global_state()
    with before.applied():
        expected = program(x)
    verdict = judge(Call.now(program, [x]), Side(expected, [x]), Side(expected * 1.1, [x]))
    assert (verdict.fault, verdict.rule) == (True, "fp64")
    assert verdict.eager_error is not None and verdict.eager_error < 1e-6
    assert global_state() == before


def test_an_equal_call_is_not_rerun() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("nothing differs: there is nothing to ask")

    assert judge(Call.now(never, []), Side(torch.ones(2)), Side(torch.ones(2))) == Verdict()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_roundings_are_legal_and_faults_are_not_where_operators_reach_the_referee_whole(mode: Any) -> None:
    """In inference mode `contiguous`, `reshape`, `to` and `linear` are not taken apart before they are seen."""
    x, w = torch.randn(8, 64), torch.randn(64, 64)

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        h = F.layer_norm(F.linear(x, w), (64,))
        return (
            h.t().contiguous(),
            h.t().reshape(-1),
            h.to(torch.bfloat16),
            (h * 4).to(torch.int64),
            torch.softmax(h, -1),
        )

    def other(x: torch.Tensor, w: torch.Tensor, by: float = 1 + 2e-7) -> tuple[torch.Tensor, ...]:
        h = F.layer_norm((x.double() @ w.double().T * by).float(), (64,)) * by
        return (
            h.t().contiguous(),
            h.t().reshape(-1),
            h.to(torch.bfloat16),
            (h * 4).to(torch.int64),
            torch.softmax(h, -1),
        )

    with mode():
        assert not judged(function, [x, w], other).fault
        for place in (0, 1, 2, 4):  # what is cast to an integer is behind a jump
            wrong = judged(function, [x, w], lambda x, w, at=place: _with_one_wrong(function(x, w), at))
            assert wrong.fault and wrong.differences[0].where == f"output[{place}]"


def test_an_operator_of_torchscripts_own_is_not_asked_for_its_parts() -> None:
    """Where a fake tensor is asked for its device it reaches a mode, from C++ code that no exception may leave."""
    with torch.inference_mode():
        assert MarkedRun().__torch_dispatch__(torch.ops.prim.device.default, (), (torch.ones(2),)) == torch.device(
            "cpu"
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("activation", [F.silu, F.mish])
def test_a_gradient_for_which_a_backend_has_its_own_kernel_is_judged_by_it(activation: Any, dtype: torch.dtype) -> None:
    """Its operator is a composite one as well, whose parts round more often: what runs them is not steady beside eager."""
    torch.manual_seed(0)
    x = torch.randn(64, dtype=dtype, requires_grad=True)
    assert not judged_gradients(activation, [x], lambda x: activation(x.float()).to(dtype)).fault
    assert judged_gradients(activation, [x], lambda x: activation(x) + (x - x.detach())).fault


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_roundings_are_legal_and_faults_are_not_in_nested_tensors(mode: Any) -> None:
    """Their sizes cannot be compared with others, and what they compute they compute with tensors inside of them."""

    def function(x: torch.Tensor, w: torch.Tensor, by: float = 1.0) -> tuple[torch.Tensor, ...]:
        h = F.layer_norm(F.linear(torch.tanh(x * by), w), (8,))
        return h * 30, h.softmax(1), h.to_padded_tensor(0.0).sum(1), h.to(torch.bfloat16)

    def rounded_otherwise(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return function(x, w, 1 + 2e-7)

    torch.manual_seed(0)
    x, w = torch.nested.nested_tensor([torch.randn(n, 8) for n in (3, 5, 2)], layout=torch.jagged), torch.randn(8, 8)
    with mode():
        assert not judged(function, [x, w], rounded_otherwise).fault
        for place in range(4):

            def wrong(x: torch.Tensor, w: torch.Tensor, at: int = place) -> tuple[torch.Tensor, ...]:
                values = function(x, w)
                (values[at].values() if values[at].is_nested else values[at]).flatten()[3] += 0.02
                return values

            verdict = judged(function, [x, w], wrong)
            assert verdict.fault
            assert verdict.differences[0].where.startswith(f"output[{place}]")


def _with_one_wrong(values: tuple[torch.Tensor, ...], place: int) -> tuple[torch.Tensor, ...]:
    """The values, of which one element is off by more than rounding explains."""
    wrong = values[place].clone()
    wrong.flatten()[3].add_(2)
    return (*values[:place], wrong, *values[place + 1 :])
