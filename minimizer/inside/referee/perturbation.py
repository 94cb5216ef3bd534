"""What a correct compiler may change: an eager run with every rounding drawn anew."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..values import bodies
from ..values.elements import plain, wide
from ..values.rounding import (
    EXACT,
    NORMALIZATIONS,
    call_and_see_draws,
    chain_of,
    computes,
    is_rounding,
    is_view,
    jumps,
    name_by_effect,
    sums,
    tensors,
    written_operands,
)
from .jumps import SameJumps

LONGEST_CHAIN = 4096
"""Longer sums are made of shorter ones everywhere."""


class Perturbation(TorchDispatchMode):
    """Repeats an eager run with every rounding drawn anew (Monte Carlo arithmetic).

    The result of each rounding operator is moved by up to one unit in the last place, and the terms of each sum by as much of
    the precision they are summed in. Summing N terms one after the other loses more, by the roundings of N partial sums: sqrt(N / 2)
    times as much, of the terms where these have mixed signs (partial sums grow like sqrt(k)), of the result where they do not.
    Where terms cancel nothing else shows how far a correct sum may be off. How far the outputs spread is how far a correct
    compiler may legally move them.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int, jumps: SameJumps | None = None) -> None:
        """
        Args:
            seed: of the roundings.
            jumps: take these; None to let a rounding decide.
        """
        super().__init__()
        self._seed, self._jumps = seed, jumps
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return self._in_bodies(func, args, kwargs)
        if is_view(func):
            return func(*args, **kwargs)
        name, loss, operands = name_by_effect(func, args, kwargs), 1.0, tensors(args)
        if sums(name) and not list(written_operands(func, args, kwargs)):
            loss = _loss(chain_of(name, operands))
            args = tuple(self._moved_term(arg, loss) if is_rounding(arg) else arg for arg in args)
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
        """Move each mean that was subtracted by what its sum may lose: all that it was subtracted from moves together."""
        if not (is_rounding(normalized) and is_rounding(mean)):
            return  # of a model in evaluation, which has taken no means
        loss = _loss(normalized.numel() // mean.numel())
        shift = (self._moved(mean, loss * torch.finfo(mean.dtype).eps) - mean) * rstd
        if name == "native_group_norm":
            samples, channels = normalized.shape[:2]
            shift = shift.repeat_interleave(channels // mean.shape[1], 1)
            shift = shift.view(samples, channels, *[1] * (normalized.dim() - 2))
        elif mean.dim() != normalized.dim():  # of channels
            shift = shift.view(-1, *[1] * (normalized.dim() - 2))
        normalized += shift

    def _in_bodies(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A higher-order operator: its bodies' roundings, or where these are not seen those of its operands and results."""
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
        # Sums of half precision are kept in single precision, too fine a step for the operand to show.
        return self._moved(term, loss * eps) if eps <= torch.finfo(torch.float32).eps else term

    def _moved(self, tensor: Tensor, eps: float) -> Tensor:
        values = plain(tensor)
        values = wide(values) if values.dtype.itemsize > 4 else values.to(torch.float32)
        noise = torch.empty(values.shape, dtype=values.real.dtype, device=values.device)
        noise.uniform_(-eps, eps, generator=self._generator(values.device))
        moved = torch.addcmul(values, values, noise)
        return torch.where(values.isfinite(), moved, values).to(tensor.dtype)  # no rounding makes NaN of an infinity

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


def _loss(terms: int) -> float:
    """How many roundings the sum of so many terms may be off by."""
    return math.sqrt(max(1.0, min(terms, LONGEST_CHAIN) / 2))
