"""Compares values of two sides of a program, measures their distance, and copies one side's to the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..referee.call import Side
from ..referee.compare import compare

VALUE, NONFINITE = "value", ("nan", "inf")
"""Types of differences, in the comparator's names."""


def detached(value: Any) -> Any:
    """A value whose tensors have no autograd history."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        return [detached(one) for one in value]
    return value


def parts(tensor: Tensor) -> Tensor:
    """A tensor, or the real and imaginary parts of a complex one, each with its own sign of zero."""
    tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def is_equal(expected: Tensor, actual: Any) -> bool:
    """Whether a tensor equals another in shape, dtype and all significant bits."""
    if not isinstance(actual, Tensor) or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    with torch.no_grad():
        return bool(torch.equal(expected, actual))


def sort_of(expected: Tensor, actual: Any) -> str:
    """The type of a difference, in the comparator's names: NaN and infinity before finite values."""
    found = [difference.what for difference in compare(Side(detached(expected)), Side(detached(actual)))]
    return next((what for what in found if what in NONFINITE), next(iter(found), VALUE))


def distance(expected: Tensor, actual: Any) -> float:
    """The distance of a value from eager's relative to that, in the norm.

    Infinite for another shape or other places of NaN.
    """
    if not isinstance(actual, Tensor) or actual.shape != expected.shape:
        return float("inf")
    with torch.no_grad():
        one, other = (
            value.to(torch.complex128 if value.is_complex() else torch.float64) for value in (expected, actual)
        )
        if not torch.equal(one.isnan(), other.isnan()):
            return float("inf")
        difference = torch.where(one == other, torch.zeros_like(one), one - other).nan_to_num(0.0)
        size = float(one.nan_to_num(0.0, 0.0, 0.0).norm())
        return float(difference.norm()) / size if size else float(difference.norm())


def give(source: Tensor, target: Any) -> None:
    """Copy the values of another tensor into one, unseen by autograd."""
    if isinstance(target, Tensor) and target.shape == source.shape:
        with torch.no_grad(), torch.inference_mode(target.is_inference()):
            target.data.copy_(source)
