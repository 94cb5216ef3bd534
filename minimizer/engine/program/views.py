"""Inputs that are views of other inputs: their text, and their metadata after a change of the base's shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from minimizer.engine.program import render
from minimizer.engine.program.arguments import Arg, Ref
from minimizer.engine.program.model import Input, Node, TensorMeta, View, contiguous, related

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides."""


def text(view: View) -> str:
    """The expression that creates a view, by the name of its base: ``x[1:]``."""
    result = view.of
    for step in view.steps:
        result = render.expression(replace(step, args=(Ref(result), *step.args)))  # all bind as closely as a name
    return result


def followed(inputs: Iterable[Input]) -> tuple[Input, ...] | None:
    """The inputs, with the metadata of each view recomputed from its base; None if a base can have no such view."""
    given = tuple(inputs)
    metas = {item.name: item.meta for item in given}
    result: list[Input] = []
    for item in given:
        base = metas.get(item.view.of) if item.view is not None else None
        if item.view is None or item.meta is None or base is None:
            result.append(item)
            continue
        made = laid_out(base, item.view.steps)
        if made is None:
            return None
        meta = item.meta if item.meta.shape == made[0] else item.meta.reshaped(made[0])
        meta = replace(meta, stride=made[1], dtype=base.dtype, device=base.device)
        result.append(replace(item, meta=meta))
    return tuple(result)


def as_told(inputs: Iterable[Input]) -> tuple[Input, ...]:
    """The inputs; only those stay views whose bases, no views themselves, derive them exactly, without gradients.

    For others, a change of the base would have no known effect.
    """
    given = related(inputs)
    metas = {item.name: item.meta for item in given if item.view is None}
    return tuple(
        item if item.view is None or _is_given(item, metas.get(item.view.of)) else replace(item, view=None)
        for item in given
    )


def _is_given(item: Input, base: TensorMeta | None) -> bool:
    if item.view is None or item.meta is None or base is None:
        return False
    if (
        item.meta.requires_grad
        or base.requires_grad
        or (item.meta.dtype, item.meta.device) != (base.dtype, base.device)
    ):
        return False
    made = laid_out(base, item.view.steps)
    return made == (item.meta.shape, item.meta.stride) and min(made[1], default=0) >= 0


def laid_out(base: TensorMeta, steps: Sequence[Node]) -> Layout | None:
    """The shape and strides after these steps; None if they do not apply to such a tensor."""
    layout: Layout | None = (base.shape, contiguous(base.shape) if base.stride is None else base.stride)
    for step in steps:
        layout = _step(layout, step) if layout is not None else None
    return layout


def _step(layout: Layout, step: Node) -> Layout | None:
    shape, stride = layout
    if step.target == "operator.getitem":
        return _indexed(layout, step.args[0] if isinstance(step.args[0], tuple) else (step.args[0],))
    if step.target in (".t", ".permute"):
        dims = step.args or (1, 0)
        if sorted(dims) != list(range(len(shape))):
            return None
        return tuple(shape[dim] for dim in dims), tuple(stride[dim] for dim in dims)
    meta = TensorMeta(shape, "", stride)
    if step.target == ".view":
        wanted = step.args[0] if isinstance(step.args[0], tuple) else step.args
        wanted = (meta.numel,) if wanted == (-1,) else wanted
        fits = TensorMeta(wanted, "").numel == meta.numel and meta.is_contiguous
        return (wanted, contiguous(wanted)) if fits else None
    size, steps, offset = step.args
    last = offset + sum((length - 1) * by for length, by in zip(size, steps, strict=True))
    return (size, steps) if last < meta.numel else None


def _indexed(layout: Layout, index: tuple[Arg, ...]) -> Layout | None:
    shape, stride = layout
    if len(index) > len(shape):
        return None
    kept: list[tuple[int, int]] = []
    for size, by, item in zip(shape, stride, (*index, *[slice(None)] * (len(shape) - len(index))), strict=True):
        if isinstance(item, slice):
            kept.append((len(range(size)[item]), by * (item.step or 1)))
        elif not -size <= item < size:
            return None
    return tuple(size for size, _ in kept), tuple(by for _, by in kept)
