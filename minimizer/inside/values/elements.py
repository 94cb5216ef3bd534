"""Compares two tensors element by element, vectorised and in pieces, so that large tensors need little extra memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .magnitudes import magnitudes
from .rounding import is_inexact

# Elements compared at once. Each piece is held as float64 a few times over; 4M elements are 32 MB a copy.
PIECE = 1 << 22


@dataclass(frozen=True)
class Tolerance:
    """``|actual - expected| <= atol + rtol * |expected|``

    ``least``: if given, `atol` is only a bound. Elements are then judged relative to the largest one of their order of
    magnitude, ``atol = min(atol, max(rtol * largest, least))``, so that a bound made for values near 1 does not hide
    errors in small gradients and updates. ``least`` is the smallest error of the format.
    """

    rtol: float
    atol: float
    least: float | None = None

    def absolute(self, expected: Tensor) -> Tensor | float:
        """The absolute part for each of these elements, which are in double precision."""
        if self.least is None or not expected.numel():
            return self.atol
        sizes = torch.where(expected.isfinite(), expected.abs(), 0.0)
        groups = magnitudes(sizes)
        bounds = [min(self.atol, max(self.rtol * float(sizes[group].max()), self.least)) for group in groups]
        if len(groups) == 1:
            return bounds[0]
        absolute = torch.zeros_like(sizes)
        for group, bound in zip(groups, bounds, strict=True):
            absolute[group] = bound
        return absolute


LEAST_FLUSHED = 1e-30
"""Smallest normal numbers below this one have subnormal numbers that are flushed to zero: those of half precision are kept everywhere."""
EXACT = Tolerance(0.0, 0.0)
"""No tolerance: elements must be equal."""


def default_tolerance(*dtypes: torch.dtype) -> Tolerance:
    """The tolerance of ``torch.testing.assert_close``: the widest of these dtypes'; zero for integers and booleans.

    Its absolute part is scaled to the values (`Tolerance.least`).
    """
    single = [_default_tolerance(dtype) for dtype in dtypes]
    least = max(map(_least_error, dtypes))
    return Tolerance(max(t.rtol for t in single), max(t.atol for t in single), least)


def _least_error(dtype: torch.dtype) -> float:
    """The error that a correct result may have at any magnitude: a few subnormals, or all of them where vector units
    flush them.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return 0.0
    limits = torch.finfo(dtype)
    subnormal = limits.tiny * limits.eps
    return max(4 * subnormal, limits.tiny if limits.tiny < LEAST_FLUSHED else 0.0)


def _default_tolerance(dtype: torch.dtype) -> Tolerance:
    known = _assert_close_tolerances().get(dtype)
    if known is not None:
        return Tolerance(*known)
    if dtype.is_floating_point:  # assert_close has no defaults for float8 and smaller: one step of the format
        return Tolerance(torch.finfo(dtype).eps, 1e-5)
    return EXACT


def _assert_close_tolerances() -> dict[torch.dtype, tuple[float, float]]:
    # A private table, but the only source of these numbers; if it has moved, the documented ones are used.
    try:
        from torch.testing._comparison import _DTYPE_PRECISIONS as table  # noqa: N811
    except ImportError:
        half, bfloat, single, double = (1e-3, 1e-5), (1.6e-2, 1e-5), (1.3e-6, 1e-5), (1e-7, 1e-7)
        return {
            torch.float16: half, torch.bfloat16: bfloat, torch.float32: single, torch.float64: double,
            torch.complex32: half, torch.complex64: single, torch.complex128: double,
        }  # fmt: skip
    return table


def plain(tensor: Tensor) -> Tensor:
    """The values as an ordinary strided tensor, detached from autograd."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.resolve_conj().resolve_neg()


def wide(tensor: Tensor) -> Tensor:
    """Floating tensors as float64, complex ones as complex128, others unchanged."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


@dataclass
class ElementDiff:
    """How two tensors differ: number of mismatches (``count``) and index of the first (``first``), by ``value``, ``nan`` and ``inf``."""

    shape: tuple[int, ...]
    tolerance: Tolerance
    count: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("value", "nan", "inf"), 0))
    first: dict[str, tuple[int, ...]] = field(default_factory=dict)
    max_abs: float = 0.0
    max_rel: float = 0.0
    required_atol: float = 0.0
    required_rtol: float = 0.0

    @property
    def total(self) -> int:
        return math.prod(self.shape)

    @property
    def any(self) -> bool:
        return any(self.count.values())

    @property
    def numbers(self) -> dict[str, float]:
        return {
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "required_atol": self.required_atol,
            "required_rtol": self.required_rtol,
        }

    def sample(self, tensor: Tensor, index: tuple[int, ...]) -> str:
        element = plain(tensor).expand(self.shape)[index].item()
        return f"{element:.6g}" if isinstance(element, float) else str(element)

    def note(self, what: str, positions: Tensor) -> None:
        """Count the mismatched elements at these flat positions, which are in ascending order."""
        if positions.numel() and not self.count[what]:
            self.first[what] = _unravel(int(positions[0]), self.shape)
        self.count[what] += positions.numel()

    def measure(self, expected: Tensor, actual: Tensor) -> None:
        """Update the error figures from mismatched elements that are finite on both sides."""
        if not expected.numel():
            return
        error, size = (actual - expected).abs(), expected.abs()
        self.max_abs = max(self.max_abs, float(error.max()))
        self.max_rel = max(self.max_rel, _worst_ratio(error, size))
        self.required_atol = max(self.required_atol, float((error - self.tolerance.rtol * size).max()))
        self.required_rtol = max(self.required_rtol, _worst_ratio((error - self.tolerance.atol).clamp(min=0), size))


def diff_elements(expected: Tensor, actual: Tensor, tolerance: Tolerance) -> ElementDiff | None:
    """Compare two tensors of broadcastable shapes; None if all elements are within tolerance."""
    with torch.no_grad(), torch.inference_mode(False), torch.autocast("cpu", enabled=False):
        expected, actual = plain(expected), plain(actual)
        if expected.device != actual.device:
            actual = actual.to(expected.device)
        if expected.dtype == actual.dtype and expected.shape == actual.shape and _equal(expected, actual):
            return None
        expected, actual = torch.broadcast_tensors(expected, actual)
        result = ElementDiff(tuple(expected.shape), tolerance)
        pieces = zip(expected.reshape(-1).split(PIECE), actual.reshape(-1).split(PIECE), strict=True)
        for number, (e, a) in enumerate(pieces):
            _diff_piece(e, a, number * PIECE, result)
    return result if result.any else None


def _equal(expected: Tensor, actual: Tensor) -> bool:
    try:
        return torch.equal(expected, actual)
    except (RuntimeError, NotImplementedError):  # some small dtypes do not implement comparison
        return False


def _diff_piece(expected: Tensor, actual: Tensor, offset: int, result: ElementDiff) -> None:
    if not is_inexact(expected) and not is_inexact(actual):
        # Not through float64, which cannot tell 2**53 from 2**53 + 1.
        bad = _differ(expected, actual).nonzero().flatten()
        result.note("value", bad + offset)
        result.measure(expected[bad].to(torch.float64), actual[bad].to(torch.float64))
        return
    e, a = _as_wide(expected), _as_wide(actual)
    error = (a - e).abs()
    relative = result.tolerance.rtol * e.abs()
    if bool((error <= relative).all()) and bool((error < math.inf).all()):
        return
    close = error <= result.tolerance.absolute(e) + relative  # false where either is NaN
    close &= error < math.inf  # an expected Inf makes its own tolerance infinite
    if bool(close.all()):
        return
    bad = (~close).nonzero().flatten()
    e, a = e[bad], a[bad]
    bad += offset
    finite = e.isfinite() & a.isfinite()
    either_nan = e.isnan() | a.isnan()
    result.note("nan", bad[e.isnan() ^ a.isnan()])
    result.note("inf", bad[~finite & ~either_nan & (e != a)])
    result.note("value", bad[finite])
    result.measure(e[finite], a[finite])


def _worst_ratio(error: Tensor, size: Tensor) -> float:
    # An error at an expected zero gives an infinite ratio; no error gives 0, at zero too.
    return float(torch.where(error > 0, error / size, torch.zeros_like(error)).max())


def _as_wide(tensor: Tensor) -> Tensor:
    tensor = wide(tensor)
    return tensor if is_inexact(tensor) else tensor.to(torch.float64)


def _differ(expected: Tensor, actual: Tensor) -> Tensor:
    if expected.dtype != actual.dtype:
        unsigned = torch.uint64 in (expected.dtype, actual.dtype)  # has no common integer type with signed ones
        dtype = torch.float64 if unsigned else torch.int64
        expected, actual = expected.to(dtype), actual.to(dtype)
    return expected != actual


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.append(position)
    return tuple(reversed(index))


def short(name: Any) -> str:
    """A dtype's name without prefix: ``float32`` for ``torch.float32``."""
    return str(name).removeprefix("torch.")
