"""Undefined results, for which a correct compiler may return any value.

*Conversions.* Converting NaN, infinities or out-of-range numbers to an integer type is undefined in C++ ([conv.fpint]), and
PyTorch guarantees nothing either: kernels with and without vector instructions already differ in eager.

*Writes.* If several values are written to one place (``index_put``, ``scatter``, ``index_copy``, ``put`` with repeated indices),
PyTorch documents that any of them may remain.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..values.elements import plain
from ..values.operator_mode import OperatorMode
from ..values.rounding import is_inexact, name_by_effect, tensors

CONVERTED = "a float was converted to an integer type that cannot hold it"
OVERWRITTEN = "several values were written to one place"
CONVERSIONS = ("_to_copy", "copy", "convert_element_type")
CHOICES = 4
"""Number of alternative values tried for every undefined result."""


def conversion(dtype: torch.dtype, choice: int) -> int:
    """An alternative result of an undefined conversion. The choices are far apart, so that dependent values move with at least one."""
    limits = torch.iinfo(dtype)
    return (limits.max, limits.min, 0, 1)[choice]


class Undefined(OperatorMode):
    """Detects undefined results in an eager run, and replaces them by the alternative of this ``choice``, unless it is None.

    ``seen`` describes the undefined operations that were found.
    """

    def __init__(self, choice: int | None = None) -> None:
        super().__init__()
        self._choice = choice
        self.seen: dict[str, None] = {}

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        name, written = name_by_effect(func, args, kwargs), None
        with contextlib.suppress(IndexError, RuntimeError, TypeError):  # not analysable: taken as defined
            written = self._written(name, args, kwargs)
        result = func(*args, **kwargs)
        with contextlib.suppress(RuntimeError):
            if name in CONVERSIONS and isinstance(result, Tensor):
                # None where a plain number is converted, as under forward-mode differentiation.
                for source in tensors(args)[-1:]:
                    self._converted(source, result)
            elif written is not None:
                self._overwritten(result, *written)
        return result

    def _converted(self, source: Tensor, result: Tensor) -> None:
        if not source.is_floating_point() or is_inexact(result) or result.dtype is torch.bool:
            return
        lost = ~_fits(plain(source), result.dtype).expand(result.shape)
        if bool(lost.any()):
            self.seen[CONVERTED] = None
            if self._choice is not None:
                result.masked_fill_(lost, conversion(result.dtype, self._choice))

    def _written(self, name: str, args: Any, kwargs: Any) -> tuple[Tensor, Tensor, Tensor] | None:
        """The places to which several different values are written, with the least and the largest of these; None if there are none."""
        find = WRITES.get(name)
        found = find(*args, **kwargs) if find is not None else None
        if found is None:
            return None
        ends = [_end(*found, which) for which in ("amin", "amax")]
        differs = (ends[0] != ends[1]).nonzero().squeeze(1)
        return (differs, ends[0][differs], ends[1][differs]) if differs.numel() else None

    def _overwritten(self, result: Tensor, differs: Tensor, least: Tensor, most: Tensor) -> None:
        self.seen[OVERWRITTEN] = None
        if self._choice is not None:
            result.put_(differs, (most if self._choice % 2 else least).to(result.dtype))


Written = tuple[int, Tensor, Tensor]
"""A write: size of the target, flat positions that are written to, and the values written there."""


def _by_index_put(target: Tensor, indices: Any, values: Tensor, *_: Any) -> Written:
    places = _numbered(target)[tuple(slice(None) if index is None else index for index in indices)]
    return target.numel(), places.flatten(), values.expand(places.shape).flatten()


def _by_scatter(target: Tensor, dim: int, index: Tensor, src: Any) -> Written | None:
    if not isinstance(src, Tensor) or not index.numel():
        return None
    values = src[tuple(slice(size) for size in index.shape)]
    return target.numel(), _numbered(target).gather(dim, index).flatten(), values.flatten()


def _by_index_copy(target: Tensor, dim: int, index: Tensor, source: Tensor) -> Written:
    places = _numbered(target).index_select(dim, index)
    return target.numel(), places.flatten(), source.expand(places.shape).flatten()


def _by_put(target: Tensor, index: Tensor, source: Tensor, *_: Any) -> Written:
    return target.numel(), index.flatten() % target.numel(), source.flatten()


WRITES: dict[str, Callable[..., Written | None]] = {
    "index_put": _by_index_put,
    "scatter": _by_scatter,
    "index_copy": _by_index_copy,
    "put": _by_put,
}
"""Analysers of writes by operator name; accumulating variants have another name (`name_by_effect`)."""


def _end(size: int, places: Tensor, values: Tensor, which: str) -> Tensor:
    """The least or the largest value written to each place; for complex numbers, of each part separately."""
    if values.is_complex():
        return torch.complex(_end(size, places, values.real, which), _end(size, places, values.imag, which))
    # In an ordered dtype that represents each value exactly.
    values = values.to(torch.float64 if values.is_floating_point() else torch.int64)
    empty = torch.zeros(size, dtype=values.dtype, device=values.device)
    return empty.scatter_reduce(0, places, values, which, include_self=False)


def _numbered(target: Tensor) -> Tensor:
    return torch.arange(target.numel(), device=target.device).view(target.shape)


def _fits(source: Tensor, dtype: torch.dtype) -> Tensor:
    """Mask of elements whose conversion is defined: the truncated number fits into the integer type."""
    whole, limits = source.double().trunc(), torch.iinfo(dtype)
    return (whole >= float(limits.min)) & (whole < float(limits.max) + (1.0 if limits.bits < 64 else 0.0))
