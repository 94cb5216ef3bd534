"""Excuses NaN and Inf near a pole, as ``log``, ``atanh`` and ``1 / x`` have one: there a last bit decides between a number and no number."""

from __future__ import annotations

import enum
import math

import torch
from torch import Tensor

from .distance import lost

FEWEST = 8
"""Elements of which a quarter says how far rounding moves a typical one."""
TYPICAL = 8
"""A typical element is at most this many times the median."""
FAR = 16
"""An element is next to a pole if rounding moves it this many times as far as a typical one."""
ENOUGH = 6
"""Runs after which an element that none of them saw next to a pole is taken to be away from all."""


class Shows(enum.IntEnum):
    """What a run says of a tensor; each includes what stands above it."""

    KINDS = 0
    """What elements become next to a pole: its jumps are others, which move elements far from any."""
    PLACES = 1
    """Elements that it makes NaN or Inf; it moves long sums a lot, so that lost digits say nothing."""
    DIGITS = 2
    """Elements that it takes half of the digits of."""


class Poles:
    """What runs with redrawn roundings show of a tensor: the elements next to a pole, and what they become there (NaN, Inf or -Inf).

    Next to a pole is an element that some run makes NaN or Inf, or takes half of the digits of, of its own and of the tensor's typical
    element: what merely cancels to near zero keeps the latter.
    """

    def __init__(self, truth: Tensor, dtype: torch.dtype) -> None:
        self._truth, self._eps = truth, torch.finfo(dtype).eps
        self._near = torch.zeros_like(truth, dtype=torch.bool)
        self._nan, self._above, self._below = (torch.zeros_like(self._near) for _ in range(3))
        self._made = [False] * len(_kinds(truth))
        self._runs = 0

    def learn(self, run: Tensor, shows: Shows) -> None:
        """Add what a run shows."""
        self._runs += 1
        gone = lost(run, self._truth)
        if shows >= Shows.PLACES:
            self._near |= gone
        if shows >= Shows.DIGITS:
            self._near |= self._without_digits(run)
        self._nan |= gone & run.isnan()
        if not run.is_complex():
            self._above |= run > 0
            self._below |= run < 0
        self._made = [made or bool((kind & gone).any()) for made, kind in zip(self._made, _kinds(run), strict=True)]

    def excused(self, actual: Tensor) -> Tensor:
        """Mask of elements next to a pole that are what some run has made of an element, or the infinity between its numbers and NaN."""
        seen = torch.zeros_like(self._near)
        if not actual.is_complex():
            seen = seen | self._nan & (actual.isposinf() & self._above | actual.isneginf() & self._below)
        for made, kind in zip(self._made, _kinds(actual), strict=True):
            if made:
                seen = seen | kind
        return self._near & seen

    def are_away(self, elements: Tensor) -> bool:
        """Whether some of the elements of a mask are next to no pole, as far as enough runs tell: no more are needed."""
        return self._runs >= ENOUGH and bool((elements & ~self._near).any())

    def _without_digits(self, run: Tensor) -> Tensor:
        is_finite = run.isfinite() & self._truth.isfinite()
        if not bool(is_finite.any()):
            return torch.zeros_like(self._near)
        error = torch.where(is_finite, (run - self._truth).abs(), 0.0)
        known, errors = self._truth[is_finite].abs(), error[is_finite]
        # Beside a pole the root of the mean square is that of the pole's own values.
        size = min(float(known.square().mean().sqrt()), TYPICAL * float(known.median()) or math.inf)
        quarter = len(errors) // 4 if len(errors) >= FEWEST else 0
        typical = float(errors.kthvalue(quarter).values) if quarter else 0.0
        half = math.sqrt(self._eps)
        # Where the typical element has lost half of the tensor's digits too, all may be next to a pole.
        least = max(self._eps**0.75 * size, FAR * self._eps * size, min(FAR * typical, half * size))
        return error > (half * self._truth.abs()).clamp(min=least)


def _kinds(values: Tensor) -> tuple[Tensor, ...]:
    """Masks of the elements that are NaN, Inf and -Inf; a complex infinity has no sign."""
    if values.is_complex():
        return values.isnan(), values.isinf() & ~values.isnan()
    return values.isnan(), values.isposinf(), values.isneginf()
