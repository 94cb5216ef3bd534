"""Constants as source text: numbers, dtypes, devices, and objects that have a name."""

from __future__ import annotations

import math
from typing import Any

import torch

from .names import dotted_name

Json = Any
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class Opaque(Exception):
    """Part of a graph cannot be written as source text."""


def literal(value: Any) -> Json:
    """A constant argument: a plain JSON value, or ``{"code": source text}``.

    Raises:
        Opaque: there is no source text for it.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, SYMBOLS):
        return hint(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"code": f'float("{value}")'}
    if isinstance(value, complex):
        return {"code": complex_number(value)}
    if value is Ellipsis:
        return {"code": "..."}
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        return {"code": str(value)}
    if isinstance(value, torch.device):
        return {"code": f'torch.device("{value}")'}
    if isinstance(value, type) or callable(value):
        name = "torch.Tensor" if value is torch.Tensor else dotted_name(value)
        if name is not None:
            return {"code": name}
    raise Opaque(f"a constant of type {type(value).__name__}")


def number(value: bool | int | float) -> str:
    """Source text of a number; NaN and infinities have no literal."""
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def complex_number(value: complex) -> str:
    """Source text of a complex number with the signs of its zeros: ``-0+0j`` and ``-1j`` give others, and NaN has no literal."""
    parts = value.real, value.imag
    has_signed_zero = any(part == 0 and math.copysign(1, part) < 0 for part in parts) or (parts[0] == 0 > parts[1])
    if has_signed_zero or not all(map(math.isfinite, parts)):
        return f"complex({number(value.real)}, {number(value.imag)})"
    return repr(value)


def hint(value: Any) -> Any:
    """A symbol's value in the compiled example, 1 if it has none; any other value unchanged."""
    if not isinstance(value, SYMBOLS):
        return value
    known = value.node.hint if value.node.has_hint() else None
    return 1 if known is None else known
