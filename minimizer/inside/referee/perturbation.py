"""Estimates how far a correct compiler may move results: an eager rerun with every rounding redrawn."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..values import bodies
from ..values.elements import plain, wide
from ..values.operator_mode import OperatorMode
from ..values.rounding import (
    EXACT,
    NORMALIZATIONS,
    SOFTMAXES,
    call_and_see_draws,
    chain_of,
    computes,
    is_rounding,
    is_view,
    jumps,
    name_by_effect,
    sums,
    tensors,
    updated_operands,
)
from .jumps import SameJumps

LONGEST_CHAIN = 4096
"""Terms; every implementation splits longer sums into partial sums."""


class Perturbation(OperatorMode):
    """Repeats an eager run with every rounding redrawn (Monte Carlo arithmetic).

    The result of each rounding operator is moved by up to one unit in the last place, and so are the terms of each sum, in the
    precision they are summed in. Summing N terms sequentially loses more, by the roundings of N partial sums: sqrt(N / 2) times as
    much, relative to the terms if these have mixed signs (partial sums grow like sqrt(k)), else relative to the result. If terms
    cancel, only moving the terms shows how far a correct sum may be off. The spread of the outputs is how far a correct compiler
    may move them.
    """

    def __init__(self, seed: int, jumps: SameJumps | None = None, longest: int = LONGEST_CHAIN) -> None:
        """
        Args:
            seed: of the random roundings.
            jumps: the jumps to take; None: as the redrawn roundings decide.
            longest: terms that a sum loses the roundings of, at most.
        """
        super().__init__()
        self._seed, self._jumps, self._longest = seed, jumps, longest
        self._generators: dict[torch.device, torch.Generator] = {}

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            return self._in_bodies(func, args, kwargs)
        if is_view(func):
            return func(*args, **kwargs)
        name, loss, operands = name_by_effect(func, args, kwargs), 1.0, tensors(args)
        if name in SOFTMAXES and len(args) > 1:
            args = (self._moved_exponents(args[0], args[1]), *args[1:])
        elif sums(name):
            loss = self._loss(chain_of(name, operands))
            # A copy would be updated in the place of the tensor itself.
            kept = {id(operand) for operand in updated_operands(func, args, kwargs)}
            args = tuple(
                self._moved_term(arg, loss) if is_rounding(arg) and id(arg) not in kept else arg for arg in args
            )
        result, drew = call_and_see_draws(func, args, kwargs)
        if self._jumps is not None:
            self._jumps.take(func, args, kwargs, result)
        is_exact = name in EXACT or jumps(name, kwargs, operands)
        if drew or (is_exact and not computes(name, kwargs, operands)):
            return result
        if name in NORMALIZATIONS:
            self._move_means(name, *result[:3])
        for output in tensors(result):
            if is_rounding(output):
                output.copy_(self._moved(output, loss * torch.finfo(output.dtype).eps))
        return result

    def _move_means(self, name: str, normalized: Tensor, mean: Tensor, rstd: Tensor) -> None:
        """Move each mean of a normalization by the rounding of its sum: all elements it was subtracted from move together."""
        if not (is_rounding(normalized) and is_rounding(mean)):
            return  # in evaluation mode no means are computed
        loss = self._loss(normalized.numel() // mean.numel())
        shift = (self._moved(mean, loss * torch.finfo(mean.dtype).eps) - mean) * rstd
        if name == "native_group_norm":
            samples, channels = normalized.shape[:2]
            shift = shift.repeat_interleave(channels // mean.shape[1], 1)
            shift = shift.view(samples, channels, *[1] * (normalized.dim() - 2))
        elif mean.dim() != normalized.dim():  # batch norm: one mean for each channel
            shift = shift.view(-1, *[1] * (normalized.dim() - 2))
        normalized += shift

    def _in_bodies(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Perturb a higher-order operator: the roundings in its bodies, or if these cannot be seen, its operands and results."""
        if bodies.is_entered(func):
            return bodies.call(self, func, args, kwargs)
        moved = [self._moved_term(arg) if is_rounding(arg) else arg for arg in args]
        result = func(*moved, **kwargs)
        for output in tensors(result):
            if is_rounding(output):
                output.copy_(self._moved(output, torch.finfo(output.dtype).eps))
        return result

    def _moved_term(self, term: Tensor, loss: float = 1.0) -> Tensor:
        eps = torch.finfo(term.dtype).eps
        # Half-precision sums are accumulated in single precision, whose step is too small to show in a half-precision operand.
        return self._moved(term, loss * eps) if eps <= torch.finfo(torch.float32).eps else term

    def _moved_exponents(self, exponents: Tensor, dim: int | list[int]) -> Tensor:
        """The operand of a softmax, moved as far as its terms may be: every implementation subtracts the largest exponent first.

        Moved by a rounding of its own, an exponent of -1e9 would change its row beyond recognition.
        """
        if not is_rounding(exponents):
            return exponents
        distances = exponents - exponents.amax(dim, keepdim=True)
        moved = exponents + (self._moved_term(distances) - distances)
        return torch.where(distances.isfinite(), moved, exponents)

    def _moved(self, tensor: Tensor, eps: float) -> Tensor:
        values = plain(tensor)
        values = wide(values) if values.dtype.itemsize > 4 else values.to(torch.float32)
        noise = torch.empty(values.shape, dtype=values.real.dtype, device=values.device)
        noise.uniform_(-eps, eps, generator=self._generator(values.device))
        moved = torch.addcmul(values, values, noise)
        return torch.where(values.isfinite(), moved, values).to(tensor.dtype)  # rounding makes no NaN of an infinity

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]

    def _loss(self, terms: int) -> float:
        """The error of a sum of this many terms, in roundings."""
        return math.sqrt(max(1.0, min(terms, self._longest) / 2))
