"""The explicit casts of a program, and the rule for compiled code that drops one.

A script that casts to a narrow dtype asks for that rounding: ``x - x.to(torch.bfloat16).float()`` is the remainder, and 0 without it.
The wide truth (`fp64`) has no such rounding. The second truth keeps it: everything is double precision, and what an explicit cast or
a write in place returns is rounded to the dtype that it has in eager. Casts that autocast or type promotion insert are not kept,
since no call of the program makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from ..rulings import CASTS
from ..values.rounding import is_inexact, tensors
from .distance import MARGIN

DROPPED_CAST = "dropped_cast"
"""`Verdict.mechanism` of compiled code that computes without a cast of the script."""
FEW = 4
"""Units in the last place of the narrow dtype by which a result may move, in the norm, where compiled code drops a cast."""
_IN_PLACE = frozenset(
    f"__{name}__" for name in ("iadd", "ifloordiv", "imod", "imul", "ipow", "isub", "itruediv", "setitem")
)


class Casts(TorchFunctionMode):
    """Records the dtypes that explicit casts and writes in place give their results in an eager run, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.dtypes += [tensor.dtype for tensor in _rounded(func, args, result)]
        return result

    def narrowest(self, dtype: torch.dtype) -> torch.dtype | None:
        """The narrowest dtype that is cast to, if that can matter to a result of ``dtype``.

        Casts to single precision matter to double precision only: compiled code keeps nothing wider than that.
        """
        size = dtype.itemsize
        narrow = [
            other
            for other in self.dtypes
            if other.is_floating_point and (other.itemsize < min(4, size + 1) or 4 == other.itemsize < size)
        ]
        return max(narrow, key=lambda other: torch.finfo(other).eps, default=None)


class KeptCasts(TorchFunctionMode):
    """Rounds as an eager run did, whose ``dtypes`` these are, in a run in double precision.

    ``agrees``: whether this run made the same casts so far.
    """

    def __init__(self, dtypes: list[torch.dtype]) -> None:
        super().__init__()
        self._left: Iterator[torch.dtype | None] = iter([*dtypes])
        self.agrees = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():  # calls made here are not the program's
            for tensor in _rounded(func, args, result):
                dtype = next(self._left, None)
                self.agrees &= dtype is not None and is_inexact(tensor) == _is_inexact(dtype)
                if not self.agrees or dtype is None or not is_inexact(tensor):
                    continue
                if _name(func) not in CASTS:
                    tensor.data.copy_(_round(tensor, dtype))
                elif tensor.requires_grad:
                    result = tensor + (_round(tensor, dtype) - tensor.detach())
                else:
                    result = _round(tensor, dtype)
        return result


def drops_a_cast(expected: Tensor, actual: Tensor, wide: Tensor, kept: Tensor, eps: float) -> bool:
    """Whether compiled code agrees with the wide truth only, and that moves the result beyond a few roundings to the narrow dtype.

    Args:
        expected, actual: eager's result and the compiled one, in double precision, as the two truths.
        wide, kept: the truth without casts, and the one that keeps them.
        eps: the unit in the last place of the dtype that is cast to.
    """
    if not all(bool(tensor.isfinite().all()) for tensor in (expected, actual, wide, kept)):
        return False
    moved = float((actual - kept).norm())
    is_wide = MARGIN * float((actual - wide).norm()) < moved
    is_kept_by_eager = MARGIN * float((expected - kept).norm()) < moved
    return is_wide and is_kept_by_eager and moved > FEW * eps * float(kept.norm())


def _rounded(func: Any, args: Any, result: Any) -> list[Tensor]:
    """The tensors that a call rounds to their dtype: the result of an explicit cast, or what is written to in place."""
    name = _name(func)
    if name in CASTS:
        return [result] if isinstance(result, Tensor) else []
    is_in_place = name in _IN_PLACE or (name.endswith("_") and not name.startswith("_") and name != "requires_grad_")
    is_foreach = name.startswith("_foreach_") and name.endswith("_")
    return tensors(args[:1]) if args and (is_in_place or is_foreach) else []


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", "")).split(".")[0]


def _round(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    with _disable_current_modes(), torch.no_grad():
        return tensor.detach().to(dtype).to(tensor.dtype)


def _is_inexact(dtype: torch.dtype | None) -> bool:
    return dtype is not None and (dtype.is_floating_point or dtype.is_complex)
