"""Excuses elements that hang on subnormal numbers, which vector units and Triton's kernels flush to zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..values import bodies
from ..values.elements import LEAST_FLUSHED
from ..values.operator_mode import OperatorMode
from ..values.rounding import (
    EXACT,
    call_and_see_draws,
    computes,
    is_rounding,
    is_view,
    jumps,
    name_by_effect,
    tensors,
)
from .distance import outside, same_values


class Flushing(OperatorMode):
    """Repeats an eager run with the subnormal results of its arithmetic flushed to the zero of its sign, and no rounding redrawn.

    Results that are exact (casts, selections) and subnormal inputs are kept.
    """

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            if bodies.is_entered(func):
                return bodies.call(self, func, args, kwargs)
            return _flush(func(*args, **kwargs))
        if is_view(func):
            return func(*args, **kwargs)
        name, operands = name_by_effect(func, args, kwargs), tensors(args)
        result, drew = call_and_see_draws(func, args, kwargs)
        is_exact = name in EXACT or jumps(name, kwargs, operands)
        if drew or (is_exact and not computes(name, kwargs, operands)):
            return result
        return _flush(result)


def _flush(result: Any) -> Any:
    """The result, with its subnormal numbers flushed in place."""
    for output in tensors(result):
        if is_rounding(output) and torch.finfo(output.dtype).tiny < LEAST_FLUSHED:
            output.copy_(_flushed(output))
    return result


def _flushed(values: Tensor) -> Tensor:
    if values.is_complex():
        return torch.complex(_flushed(values.real), _flushed(values.imag))
    return torch.where(values.abs() < torch.finfo(values.dtype).tiny, values * 0.0, values)


def moved_by_flushing(flushed: Tensor, expected: Tensor, actual: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask of elements that flushing makes of eager's value what compiled code has there, up to the dtype's tolerance.

    Args:
        flushed: eager with its subnormal numbers flushed.
    """
    is_same = same_values(flushed, actual) | (flushed.isfinite() & actual.isfinite() & ~outside(flushed, actual, dtype))
    return ~same_values(flushed, expected) & is_same
