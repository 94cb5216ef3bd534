"""Describes a view by public operations that derive it from its base.

Autograd knows that one tensor is a view of another (``_base``), which changes how AOTAutograd treats two inputs that
share memory. It does not know the operations: `steps` finds some with the same sizes, strides and offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor


class ViewStep(NamedTuple):
    """One operation on a tensor: ``operator.getitem`` or a method such as ``.permute``, and its arguments after the
    tensor.
    """

    target: str
    args: tuple[Any, ...]


def base_of(view: Tensor) -> Tensor | None:
    """The base of a view according to autograd, if both see the memory in the same way; None for other tensors."""
    with torch._C.DisableTorchFunctionSubclass():
        base: Tensor | None = view._base
        if base is None or base.is_nested or base.layout is not torch.strided or view.layout is not torch.strided:
            return None
        is_same = base.untyped_storage()._cdata == view.untyped_storage()._cdata
        return base if is_same and _reading(base) == _reading(view) else None


def steps(view: Tensor, base: Tensor) -> list[ViewStep]:
    """Operations that derive ``view`` from ``base``: an index, a permutation, another shape; else ``as_strided``.

    ``base``: from `base_of`.
    """
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        wanted = _geometry(view)
        for found in (_indexed(view, base), _reshaped(view, base)) if base.numel() else ():
            with suppress(IndexError, RuntimeError):  # they do not fit
                if found and _geometry(applied(found, base)) == wanted:
                    return found
        return [ViewStep(".as_strided", (tuple(view.size()), tuple(view.stride()), view.storage_offset()))]


def applied(found: Sequence[ViewStep], base: Tensor) -> Tensor:
    """The result of these operations."""
    result = base
    for step in found:
        result = result[step.args[0]] if step.target == "operator.getitem" else _method(result, step)
    return result


def _method(tensor: Tensor, step: ViewStep) -> Tensor:
    result: Tensor = getattr(tensor, step.target.removeprefix("."))(*step.args)
    return result


def _reading(tensor: Tensor) -> tuple[torch.dtype, bool, bool, bool]:
    return tensor.dtype, tensor.is_conj(), tensor.is_neg(), tensor.is_inference()


def _geometry(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(tensor.size()), tuple(tensor.stride()), int(tensor.storage_offset())


def _indexed(view: Tensor, base: Tensor) -> list[ViewStep]:
    """An index, and a permutation of the remaining dimensions; empty if there can be none.

    The caller checks whether they fit.
    """
    starts = _starts(int(view.storage_offset() - base.storage_offset()), base)
    sizes, strides = tuple(base.size()), tuple(base.stride())
    order: list[int] = []
    """For each dimension of the view, that of the base."""
    index: list[Any] = list(starts)
    for size, stride in zip(view.size(), view.stride(), strict=True):
        free = [dim for dim in range(base.dim()) if dim not in order and _fits(size, stride, base, dim, starts[dim])]
        if not free:
            return []
        dim = max(free, key=lambda one: (strides[one] == stride, strides[one], sizes[one] > 1, -one))
        order.append(dim)
        index[dim] = _slice(starts[dim], size, stride // max(base.stride(dim), 1), base.size(dim))
    while len(index) > 1 and index[-1] == slice(None):
        index.pop()
    # `x[:]` of everything is a view like any other, but redundant before a permutation.
    is_idle = index == [slice(None)] and order != sorted(order)
    found = (
        [ViewStep("operator.getitem", (index[0] if len(index) == 1 else tuple(index),))]
        if index and not is_idle
        else []
    )
    if order != sorted(order):
        dims = [sorted(order).index(dim) for dim in order]
        found.append(ViewStep(".t", ()) if dims == [1, 0] else ViewStep(".permute", tuple(dims)))
    return found


def _starts(offset: int, base: Tensor) -> list[int]:
    """The index in each dimension of the base at an offset."""
    starts = [0] * base.dim()
    for dim in sorted(range(base.dim()), key=lambda dim: base.stride(dim), reverse=True):
        if base.size(dim) > 1 and base.stride(dim) > 0:
            starts[dim] = min(max(offset, 0) // base.stride(dim), base.size(dim) - 1)
            offset -= starts[dim] * base.stride(dim)
    return starts


def _fits(size: int, stride: int, base: Tensor, dim: int, start: int) -> bool:
    """Whether a dimension of a view can be a slice of one of its base."""
    step = base.stride(dim)
    if step == 0:
        return stride == 0 and start + size <= base.size(dim)
    return stride > 0 and stride % step == 0 and start + (size - 1) * (stride // step) < base.size(dim)


def _slice(start: int, size: int, step: int, whole: int) -> slice:
    """The slice of a dimension, open if it reaches the end."""
    is_open = len(range(start, whole, max(step, 1))) == size
    stop = None if is_open else start + max(size - 1, 0) * step + bool(size)
    return slice(start or None, stop, step if step > 1 else None)


def _reshaped(view: Tensor, base: Tensor) -> list[ViewStep]:
    """A contiguous range of elements of the base in another shape; empty if it is no such range."""
    if not (base.is_contiguous() and view.is_contiguous()):
        return []
    start, count = int(view.storage_offset() - base.storage_offset()), view.numel()
    shaped = ViewStep(".view", tuple(view.size()) or ((),))
    if count == base.numel():
        return [shaped]
    flat = [] if base.dim() == 1 else [ViewStep(".view", (-1,))]
    run = ViewStep("operator.getitem", (_slice(start, count, 1, base.numel()),))
    return [*flat, run] if view.dim() == 1 else [*flat, run, shaped]
