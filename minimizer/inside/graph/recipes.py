"""Recipes: source text that recreates the inputs of a call, including shared storages.

Used for the calls before a failing one. Small tensors become literals; large ones are redrawn at random, integers from the same
range. So no tensors of earlier calls are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..values import snapshot
from .golden import literal
from .literals import Opaque
from .literals import literal as constant

LITERAL_ELEMENTS = 4
"""Elements of the longest literal; a longer one is worse than a random draw, since each number has to be reduced."""
ALIGNMENT = 64
"""Bytes: inductor may assume that a tensor's offset in its storage is a multiple of this."""


@dataclass(frozen=True)
class Recipe:
    """``statements`` bind the storages that several inputs share; ``values`` are an expression for each input, in order."""

    statements: tuple[str, ...]
    values: tuple[str, ...]


def recipe(inputs: Sequence[Any]) -> Recipe:
    """The recipe of a call's inputs: tensors, numbers and other values with a literal.

    Raises:
        Opaque: an input has no source text.
    """
    plain = [value for value in inputs if isinstance(value, Tensor) and snapshot.has_plain_storage(value)]
    storages = [value.untyped_storage()._cdata for value in plain]
    if len({(storage, value.dtype) for value, storage in zip(plain, storages, strict=True)}) > len(set(storages)):
        raise Opaque("a storage that is seen as several dtypes")
    bases: dict[int, str] = {}
    statements: list[str] = []
    for value, storage in zip(plain, storages, strict=True):
        is_aligned = value.storage_offset() * value.element_size() % ALIGNMENT == 0
        is_alone = storages.count(storage) == 1 and value.is_contiguous() and is_aligned
        if storage not in bases and not is_alone:
            bases[storage] = f"base{len(bases) or ''}"
            statements.append(f"{bases[storage]} = {made(_base(value))}")
    return Recipe(tuple(statements), tuple(_value(value, bases) for value in inputs))


def _value(value: Any, bases: dict[int, str]) -> str:
    if not isinstance(value, Tensor):
        form = constant(value)
        return str(form["code"]) if isinstance(form, dict) else repr(form)
    if not snapshot.has_plain_storage(value):
        raise Opaque(f"an input of type {type(value).__name__} without a storage of its own")
    base = bases.get(value.untyped_storage()._cdata)
    text = made(value) if base is None else _view(value, base)
    if not value.requires_grad:
        return text
    return f"{text}.requires_grad_()" if value.is_leaf and base is None else f"{text}.detach().requires_grad_().clone()"


def _base(value: Tensor) -> Tensor:
    """A one-dimensional view of a tensor's whole storage."""
    size = value.untyped_storage().nbytes() // value.element_size()
    return value.detach().as_strided((size,), (1,), 0)


def _view(value: Tensor, base: str) -> str:
    offset = value.storage_offset()
    if value.dim() == 1 and value.stride() == (1,):
        return f"{base}[{offset}:{offset + len(value)}]"
    return f"{base}.as_strided({tuple(value.shape)}, {value.stride()}, {offset})"


def _is_uniform(value: Tensor) -> bool:
    """Whether all elements are equal, zeros with their signs."""
    signs = value.float().signbit() if value.is_floating_point() else value < 0
    return bool((value == value.flatten()[0]).all() and (signs == signs.flatten()[0]).all())


def made(value: Tensor) -> str:
    """An expression for a contiguous tensor of this shape and dtype, with these values or similar ones."""
    shape, dtype = tuple(value.shape), value.dtype
    more = "" if dtype in (torch.float32, torch.int64, torch.bool) else f", dtype={dtype}"
    device = "" if value.device.type == "cpu" else f', device="{value.device.type}"'
    value = value.detach()
    if value.numel() and not dtype.is_complex and _is_uniform(value):
        first = value.flatten()[0].item()
        if repr(first) in ("0", "0.0", "1", "1.0"):
            kind = "" if dtype is torch.float32 else f", dtype={dtype}"
            return f"torch.{'ones' if first else 'zeros'}({shape}{kind}{device})"
        return f"torch.full({shape}, {first!r}{more}{device})"
    if value.numel() <= LITERAL_ELEMENTS:
        text = literal(value)
        if text is None:
            raise Opaque(f"a tensor of {dtype} without a literal")
        return f"{text[:-1]}{device})"
    if dtype is torch.bool:
        return f"torch.rand({shape}{device}) > 0.5"
    if not (dtype.is_floating_point or dtype.is_complex):
        return f"torch.randint({int(value.min())}, {int(value.max()) + 1}, {shape}{more}{device})"
    is_positive = dtype.is_floating_point and bool((value >= 0).all())
    kind = "" if dtype is torch.float32 else f", dtype={dtype}"
    return f"torch.{'rand' if is_positive else 'randn'}({shape}{kind}{device})"
