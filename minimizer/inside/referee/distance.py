"""Distances of results from each other and from the fp64 truth, and the bounds on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..values.elements import default_tolerance, plain, wide
from ..values.rounding import is_inexact

MARGIN = 3
"""Compiled may be this many times as far from the fp64 truth as eager."""

ELEMENTWISE = ("value", "nan", "inf")
"""Kinds of elementwise difference, which may be legal rounding."""


@dataclass(frozen=True)
class Distance:
    """Distance of one side from the truth: relative in the norm, and of the worst element."""

    norm: float
    worst: float
    missing: int
    """Number of elements that are NaN or Inf and finite in the truth, or the other way round."""

    @classmethod
    def of(cls, value: Tensor, truth: Tensor) -> Distance:
        finite = value.isfinite() & truth.isfinite()
        error = torch.where(finite, (value - truth).abs(), 0.0)
        size = torch.where(finite, truth.abs(), 0.0)
        scale = float(size.norm())
        norm = float(error.norm())
        worst = float(error.max()) if error.numel() else 0.0
        return cls(norm / scale if scale else norm, worst, int(lost(value, truth).count_nonzero()))

    def worst_of(self, others: Sequence[Distance]) -> Distance:
        every = (self, *others)
        return Distance(max(e.norm for e in every), max(e.worst for e in every), max(e.missing for e in every))

    def loses(self, eager: Distance) -> bool:
        """Whether more elements of the compiled side are not finite than rounding explains, given eager's."""
        return self.missing > MARGIN * eager.missing

    def exceeds(
        self,
        eager: Distance,
        floor: float,
        truth: Tensor,
        expected: Tensor,
        actual: Tensor,
        dtype: torch.dtype,
        margin: float = MARGIN,
    ) -> bool:
        """Whether this error of the compiled side's finite elements is a fault, given eager's error."""
        apart = outside(expected, actual, dtype) & truth.isfinite()
        if not bool(apart.any()):
            return False
        if self.norm > max(margin * eager.norm, floor) and eager.missing == 0:
            return True
        legal = torch.clamp(floor * truth.abs(), min=margin * eager.worst)
        return bool((((actual - truth).abs() > legal) & apart).any())


def lost(value: Tensor, truth: Tensor) -> Tensor:
    """Mask of elements that are NaN or Inf on one side, and another value on the other."""
    finite = value.isfinite() & truth.isfinite()
    return ~finite & ~same_values(value, truth)


def same_values(one: Tensor, other: Tensor) -> Tensor:
    """Mask of elements that are equal, or NaN on both sides."""
    return (one == other) | (one.isnan() & other.isnan())


def rounding_floor(dtype: torch.dtype, terms: int) -> float:
    """The relative error that any correct implementation may have: rounding of the result and of a sum of this many terms.

    Half-precision sums are accumulated in single precision, so that their length adds little.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    eps = torch.finfo(dtype).eps
    summed = min(eps, torch.finfo(torch.float32).eps)
    return 2 * eps + 2 * summed * math.sqrt(terms)


def outside(expected: Tensor, actual: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask of elements that differ by more than the tolerance of ``dtype``, the dtype of the computation, which is scaled to them.

    Equal infinities, whose difference is NaN, do not differ.
    """
    tolerance = default_tolerance(dtype)
    is_near = (actual - expected).abs() <= tolerance.absolute(expected) + tolerance.rtol * expected.abs()
    return ~(is_near | (actual == expected))


def same_elements(expected: Tensor, actual: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask of elements that are equal within the tolerance of ``dtype``, the dtype of the computation; both tensors have one shape."""
    same = same_values(expected, actual)
    return same | ~outside(expected, actual, dtype) if is_inexact(expected) else same


def same_bits(expected: Tensor, actual: Tensor) -> bool:
    try:
        return torch.equal(plain(expected), plain(actual))
    except (RuntimeError, NotImplementedError):
        return False


def other_zeros(expected: Tensor, actual: Tensor) -> bool:
    """Whether a zero has another sign on the other side, which a caller sees who divides by it or takes its angle."""
    try:
        sides = [plain(side) for side in (expected, actual)]
        if sides[0].shape != sides[1].shape or not all(map(is_inexact, sides)):
            return False
        one, other = (torch.view_as_real(side.resolve_conj()) if side.is_complex() else side for side in sides)
        return bool(((one == 0) & (other == 0) & (one.signbit() != other.signbit())).any())
    except (RuntimeError, NotImplementedError):
        return False


def in_double(tensor: Tensor) -> Tensor:
    tensor = wide(plain(tensor))
    return tensor if is_inexact(tensor) else tensor.to(torch.float64)
