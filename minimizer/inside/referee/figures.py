"""Error figures of a layer: distance of compiled from eager, and of each from float64, whether or not that is a fault.

The comparator reports only values out of tolerance; a table of layers also shows the errors of correct layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..values.elements import default_tolerance, plain, wide

Triple = tuple[Any, Any, Any]
"""The values of one place in eager, compiled, and float64 (None if there is no such truth)."""


def figures(places: Iterable[Triple]) -> dict[str, Any]:
    """The worst figures over all places, as JSON: absolute error, tolerances that would pass, relative errors against float64
    (norms), least cosine similarity, and the first NaN or Inf. A figure that no place has is left out, and so is one that is
    infinite at any place, since the worst of the other places would mislead.
    """
    worst: dict[str, Any] = {}
    beyond: set[str] = set()
    for expected, actual, truth in places:
        for name, value in _figures(expected, actual, truth).items():
            if name == "nonfinite":
                worst.setdefault(name, value)
            elif math.isfinite(value):
                worst[name] = (min if name == "cosine" else max)(worst.get(name, value), value)
            else:
                beyond.add(name)
    return {name: value for name, value in worst.items() if name not in beyond}


def matched(expected: Sequence[Any], actual: Sequence[Any], truth: Sequence[Any] | None) -> list[Triple]:
    """Zip three flat lists of results into triples; the truth is dropped if it does not match them."""
    if len(expected) != len(actual):
        return []
    fits = truth is not None and len(truth) == len(expected)
    return list(zip(expected, actual, truth if fits and truth is not None else [None] * len(expected), strict=True))


def _comparable(expected: Any, actual: Any) -> bool:
    both = isinstance(expected, Tensor) and isinstance(actual, Tensor)
    return both and expected.shape == actual.shape and expected.numel() > 0


def _figures(expected: Any, actual: Any, truth: Any) -> dict[str, Any]:
    """The figures of one place; infinite if the error has no finite size."""
    if not _comparable(expected, actual):
        return {}
    tolerance = default_tolerance(expected.dtype, actual.dtype)
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        e, a = _wide(expected), _wide(actual)
        found: dict[str, Any] = {}
        if (first := _first_nonfinite(e, a)) is not None:
            found["nonfinite"] = first
        finite = e.isfinite() & a.isfinite()
        error = torch.where(finite, (a - e).abs(), 0.0)
        size = torch.where(finite, e.abs(), 0.0)
        found["max_abs"] = float(error.max())
        found["required_atol"] = float((error - tolerance.rtol * size).max().clamp(min=0.0))
        beyond = (error - tolerance.atol).clamp(min=0.0)
        found["required_rtol"] = float(torch.where(beyond > 0, beyond / size, 0.0).max())
        if (cosine := _cosine(torch.where(finite, e, 0), torch.where(finite, a, 0))) is not None:
            found["cosine"] = cosine
        if _is_beyond(e, a):
            found |= dict.fromkeys(("max_abs", "required_atol", "required_rtol", "cosine"), math.inf)
        if isinstance(truth, Tensor) and truth.shape == expected.shape:
            found["compiled_vs_fp64"] = _relative(a, _wide(truth))
            found["eager_vs_fp64"] = _relative(e, _wide(truth))
    return found


def _is_beyond(one: Tensor, other: Tensor) -> bool:
    """Whether at any element one side only is NaN or Inf, or the two sides are different ones of these."""
    alike = (one == other) | (one.isnan() & other.isnan())
    return not bool((alike | (one.isfinite() & other.isfinite())).all())


def _first_nonfinite(expected: Tensor, actual: Tensor) -> dict[str, Any] | None:
    bad = ~(expected.isfinite() & actual.isfinite())
    if not bool(bad.any()):
        return None
    index = bad.nonzero()[0].tolist()
    place = tuple(index)
    sides = [name for name, side in (("eager", expected), ("compiled", actual)) if not bool(side[place].isfinite())]
    one = actual if sides[-1] == "compiled" else expected
    what = "nan" if bool(one[place].isnan()) else "inf"
    return {"side": "both" if len(sides) == 2 else sides[0], "what": what, "index": index}


def _cosine(expected: Tensor, actual: Tensor) -> float | None:
    length = float(expected.norm()) * float(actual.norm())
    if not length:
        return None
    return float((expected.conj() * actual).sum().real) / length


def _relative(value: Tensor, truth: Tensor) -> float:
    if _is_beyond(value, truth):
        return math.inf
    finite = value.isfinite() & truth.isfinite()
    size = float(torch.where(finite, truth.abs(), 0.0).norm())
    error = float(torch.where(finite, (value - truth).abs(), 0.0).norm())
    return error / size if size else error


def _wide(tensor: Tensor) -> Tensor:
    tensor = wide(plain(tensor))
    return tensor if tensor.is_floating_point() or tensor.is_complex() else tensor.to(torch.float64)
