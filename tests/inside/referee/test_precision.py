"""Precision: casts that a program asks for, and dtypes that compiled code computes in; real compilations, faulty and healthy twins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from minimizer.inside.referee.call import Call
from minimizer.inside.referee.referee import judge
from minimizer.inside.referee.reruns import Reruns
from minimizer.inside.referee.verdict import Verdict
from minimizer.inside.rulings import Ruling
from minimizer.inside.values.snapshot import global_state

BF16, HALF = torch.bfloat16, torch.float16
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def judged(function: Function, *inputs: Any) -> Verdict:
    call = Call.now(function, list(inputs))
    return judge(call, call.run(function), call.run(torch.compile(function)))


def judged_behind(function: Function, *inputs: Any, autocast: torch.dtype, cotangent: float = 1.0) -> Verdict:
    """The verdict on the gradients of a call under autocast whose backward runs outside of it, as PyTorch advises."""
    outside = global_state()
    with torch.autocast("cpu", dtype=autocast):
        call = replace(Call.now(function, list(inputs)), backward=outside)
    behind = call.behind([torch.full_like(call.run(function).result, cotangent)])
    return judge(behind, behind.run(function), behind.run(torch.compile(function)))


# --- an explicit cast is dropped ------------------------------------------------------------------------------------------------


def remainder(x: Tensor) -> Tensor:
    return x - x.to(BF16).float()


def remainder_by_type_as(x: Tensor, like: Tensor) -> Tensor:
    return x - x.type_as(like).type_as(x)


def error_feedback(grad: Tensor, rest: Tensor) -> Tensor:
    wanted = grad + rest
    sent = wanted.bfloat16().to(torch.float32)
    rest.copy_(wanted - sent)
    return sent


def compensated_step(p: Tensor, compensation: Tensor, update: Tensor) -> None:
    compensation.add_(update)
    before = p.clone()
    p.add_(compensation)
    compensation.add_(before.sub_(p))


def compensated_by_casts(p: Tensor, compensation: Tensor, update: Tensor) -> None:
    wanted = p.float() + (update + compensation.float())
    new = wanted.to(BF16)
    compensation.copy_(wanted - new.float())
    p.copy_(new)


def residual_quantization(x: Tensor) -> tuple[Tensor, Tensor]:
    first = x.to(BF16).float()
    second = (x - first).to(BF16).float()
    return first + second, x - first


def stochastic_rounding(x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    rounded = (x + (noise - 0.5) * x.abs() * 2**-8).to(BF16)
    return rounded, x - rounded.float()


def small(*shape: int) -> Tensor:
    return torch.randn(*shape).mul_(1e-2)


@pytest.mark.parametrize(
    ("function", "inputs", "lost"),
    [
        (remainder, [torch.randn(40)], "output"),
        (remainder_by_type_as, [torch.randn(40), torch.ones(1, dtype=BF16)], "output"),
        (error_feedback, [torch.randn(40), small(40)], "input[1]"),
        (compensated_step, [torch.randn(400).to(BF16), small(400).to(BF16), small(400).to(BF16)], "input[1]"),
        (compensated_by_casts, [torch.randn(400).to(BF16), torch.zeros(400, dtype=BF16), small(400)], "input[1]"),
        (residual_quantization, [torch.randn(100)], "output[1]"),
        (stochastic_rounding, [torch.randn(100), torch.rand(100)], "output[1]"),
    ],
)
def test_what_a_cast_rounds_away_is_no_rounding_of_the_compilers(
    function: Function, inputs: list[Any], lost: str
) -> None:
    verdict = judged(function, *inputs)

    assert verdict.fault
    assert (verdict.kind, verdict.mechanism) == ("wrong_output", "dropped_cast")
    assert (verdict.rule, verdict.why) == (Ruling.CASTS, "a cast to bfloat16 is dropped")
    assert [difference.where for difference in verdict.differences] == [lost]


def test_the_truth_with_casts_rounds_where_the_program_says_so_and_nowhere_else() -> None:
    x = torch.tensor([1.001, 1.0, -3.003])

    def scaled(x: Tensor) -> Tensor:
        return x.to(BF16).float() * 0.1

    runs = Reruns(Call.now(scaled, [x]))

    assert runs.truth_with_casts is not None
    assert torch.equal(runs.truth_with_casts["output"], x.to(BF16).double() * 0.1)


def test_casts_that_autocast_inserts_are_not_kept() -> None:
    def product(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=BF16):
            return x @ w

    x, w = torch.randn(8, 8), torch.randn(8, 8)
    runs = Reruns(Call.now(product, [x, w]))

    assert runs.truth_with_casts is not None
    assert torch.equal(runs.truth_with_casts["output"], x.double() @ w.double())
    assert runs.narrowest_cast("output") is None


# --- healthy twins: rounding only -----------------------------------------------------------------------------------------------


def llama_norm(x: Tensor, weight: Tensor) -> Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    return (weight * h).to(x.dtype)


def norms_in_a_row(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    weight = torch.ones(x.shape[-1], dtype=x.dtype)
    for _ in range(4):
        x = x + F.gelu(llama_norm(x, weight) @ up) @ down
    return x


def float32_stream(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    for _ in range(4):
        x = x + (F.gelu(F.rms_norm(x, (x.shape[-1],)).to(BF16) @ up) @ down).float()
    return x


def logits_in_float32(x: Tensor, head: Tensor) -> Tensor:
    logits = (x @ head).float()
    return F.log_softmax(logits / 0.7, dim=-1)


def fake_quantized(x: Tensor, weight: Tensor) -> Tensor:
    scale = weight.abs().amax() / 127
    rounded = torch.clamp(torch.round(weight / scale), -127, 127) * scale
    return x @ (weight + (rounded - weight).detach())


def bf16_adamw(p: Tensor, grad: Tensor, mean: Tensor, square: Tensor) -> None:
    mean.mul_(0.9).add_(grad, alpha=0.1)
    square.mul_(0.99).addcmul_(grad, grad, value=0.01)
    p.mul_(1 - 1e-4).addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)


def mean_kept_in_float32(average: Tensor, x: Tensor) -> Tensor:
    average.lerp_(x.float(), 0.01)
    return average.to(BF16)


def attention_with_softmax_in_float32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).float() / 4
    return scores.softmax(-1).to(q.dtype) @ v


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (llama_norm, [torch.randn(8, 32).to(BF16), torch.ones(32, dtype=BF16)]),
        (norms_in_a_row, [torch.randn(8, 32).to(BF16), small(32, 96).to(BF16), small(96, 32).to(BF16)]),
        (float32_stream, [torch.randn(8, 32), small(32, 96).to(BF16), small(96, 32).to(BF16)]),
        (logits_in_float32, [torch.randn(8, 32).to(BF16), torch.randn(32, 50).to(BF16)]),
        (fake_quantized, [torch.randn(8, 32), torch.randn(32, 16)]),
        (bf16_adamw, [torch.randn(400).to(BF16), small(400).to(BF16), small(400).to(BF16), torch.rand(400).to(BF16)]),
        (mean_kept_in_float32, [torch.randn(400), torch.randn(400).to(BF16)]),
        (attention_with_softmax_in_float32, [torch.randn(2, 9, 16).to(BF16) for _ in range(3)]),
        (error_feedback, [torch.randn(40).to(BF16).float(), torch.zeros(40)]),  # nothing is rounded away
    ],
)
def test_programs_that_cast_and_only_round_are_healthy(function: Function, inputs: list[Any]) -> None:
    verdict = judged(function, *inputs)

    assert not verdict.fault, verdict.differences
    assert verdict.mechanism == ""


# --- another precision than eager's ---------------------------------------------------------------------------------------------


def island(x: Tensor, gate: Tensor) -> Tensor:
    with torch.autocast("cpu", enabled=False):
        return F.softmax(F.linear(x.float(), gate), dim=-1)


def routed(x: Tensor, gate: Tensor, experts: Tensor) -> Tensor:
    p = island(x, gate)
    return x + sum(p[..., i : i + 1] * F.linear(x, expert) for i, expert in enumerate(experts))


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.quality("slow")
def test_a_float32_island_whose_backward_is_in_bfloat16_does_not_drown_in_the_noise_of_its_neighbours() -> None:
    verdict = judged_behind(routed, leaf(64, 32), leaf(4, 32), leaf(4, 32, 32), autocast=BF16)

    assert verdict.fault
    assert (verdict.kind, verdict.mechanism) == ("wrong_gradient", "other_precision")
    assert verdict.rule is Ruling.DTYPES
    assert verdict.why == "aten.mm in the backward computes in bfloat16, and in eager in float32"


def test_a_loss_scale_overflows_only_where_eager_overflows_too() -> None:
    def unscaled(x: Tensor, gate: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return F.linear(x, gate)

    def half(x: Tensor, gate: Tensor) -> Tensor:
        return F.linear(x, gate)

    x = torch.ones(4, 4)
    fault = judged_behind(unscaled, x, leaf(1, 4), autocast=HALF, cotangent=16384.0)
    both = judged_behind(half, x, leaf(1, 4), autocast=HALF, cotangent=16384.0)

    assert fault.mechanism == "other_precision"
    assert fault.differences[0].what == "inf"
    assert not both.fault


@pytest.mark.parametrize("autocast", [BF16, HALF])
def test_autocast_training_is_healthy(autocast: torch.dtype) -> None:
    def model(x: Tensor, up: Tensor, down: Tensor, scale: Tensor) -> Tensor:
        h = F.layer_norm(F.gelu(x @ up), (64,)) * scale
        return F.softmax((h @ down).float(), dim=-1)

    verdict = judged_behind(model, leaf(32, 16), leaf(16, 64), leaf(64, 16), leaf(64), autocast=autocast)

    assert not verdict.fault, verdict.rule


def test_an_island_that_leaves_autocast_in_the_backward_too_is_healthy() -> None:
    import torch._functorch.config

    with torch._functorch.config.patch(backward_pass_autocast="off"):
        verdict = judged_behind(routed, leaf(64, 32), leaf(4, 32), leaf(4, 32, 32), autocast=BF16)

    assert not verdict.fault, verdict.rule
