"""Provenance of an eager run's results: which of them may legally differ when compiled, and how.

Every result carries marks, which operators propagate:

* none: exact. The values were given, or only moved, selected or compared. Every correct implementation gives the same bits.
* ``ROUNDED``: float arithmetic took part. Another order of summation, a fused multiply-add or a kept intermediate precision
  changes the last bits.
* ``DISCRETE``: a rounded value went through an operator that jumps (round, floor, comparison, argmax, sort indices, a cast to
  integers, ...). A last bit upstream becomes a whole step here.
* ``RANDOM``: drawn from a generator.

An operator that jumps on exact values is exact: ``v // w`` on given inputs has one right answer. A few operators jump and round.
A value that a program reads as a plain number (``item``) marks all later results, since the number cannot be traced.

Every result also carries a length: the number of terms of the longest sum that contributed to it.

Uninitialised memory (``torch.empty``) is filled with a fixed value: a program that reads it differs from a plain eager run and is
found to be nondeterministic, even if the allocator returns the same bytes each time.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..rulings import CASTS
from ..values import bodies
from ..values.operator_mode import OperatorMode
from ..values.rounding import (
    DRAWN_ONCE,
    EXACT,
    NATIVE_DROPOUT,
    STEPPING,
    UNINITIALISED,
    call_and_see_draws,
    computes,
    is_inexact,
    is_view,
    jumps,
    name_by_effect,
    narrows,
    takes_no_values,
    tensors,
    terms_of,
    written_operands,
)
from ..values.snapshot import storage_of
from .jumps import Jumps

_FILL, _SMALL_FILL = 12345, 77
"""Fills for uninitialised memory: unlikely values, the second one for dtypes of one byte."""


class Mark(enum.Flag):
    """Marks of a value; see the module's introduction."""

    EXACT = 0
    ROUNDED = enum.auto()
    DISCRETE = enum.auto()
    RANDOM = enum.auto()


class MarkedRun(OperatorMode):
    """Marks the values of an eager run. Query ``marks`` of its results afterwards, while they are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = 1
        self.invalid_in_fp64 = ""
        self.drawn: list[Tensor] = []
        self.jumps = Jumps()
        self._marks: dict[int, Mark] = {}
        self._terms: dict[int, int] = {}
        self._read = Mark.EXACT

    def terms_in(self, tensor: Tensor) -> int:
        """Number of terms of the longest sum that contributed to a tensor; 1 for an input of the run."""
        return self._terms.get(_storage(tensor), 1)

    def marks(self, tensor: Tensor) -> Mark:
        """The marks of an input or result of this run."""
        return self._marks.get(_storage(tensor), Mark.EXACT)

    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        operands = [] if takes_no_values(func) else tensors((args, kwargs))
        union = _union(map(self.marks, operands)) | self._read
        if not isinstance(func, torch._ops.OpOverload):
            return self._watch_bodies(func, args, kwargs, operands, union)
        terms = max((self.terms_in(operand) for operand in operands), default=1)
        result, drew = call_and_see_draws(func, args, kwargs)
        name = name_by_effect(func, args, kwargs)
        self._notice(func, name, operands, drew)
        if is_view(func):
            return result
        if name in UNINITIALISED:
            _overwrite(result)
        if name == "_local_scalar_dense":
            self._read |= union
        written = list(written_operands(func, args, kwargs))
        changed = {_storage(output) for output in written}
        made = [output for output in tensors(result) if _storage(output) not in changed]
        terms = max(terms, terms_of(name, args, operands, written + made))
        for output in written + made:
            mark = union | Mark.RANDOM if drew else _mark_of(name, kwargs, operands, output, union)
            self._tell(output, mark, terms, partly=_storage(output) in changed)
        if drew:
            self.drawn.extend(output.detach().clone() for output in tensors(result))
        self.jumps.note(func, args, kwargs, result)
        return result

    def _tell(self, output: Tensor, mark: Mark, terms: int, *, partly: bool = False) -> None:
        """Set the marks of an operator's output. A new tensor may reuse a freed address, so older marks are replaced.

        Args:
            output: the tensor.
            mark: its marks.
            terms: the number of terms of its longest sum.
            partly: the tensor existed before and may be only partly overwritten, so that its marks are added to.
        """
        storage = _storage(output)
        self._marks[storage] = mark | self._marks.get(storage, Mark.EXACT) if partly else mark
        self._terms[storage] = max(terms, self._terms.get(storage, 1)) if partly else terms
        self.terms = max(self.terms, terms)

    def _watch_bodies(self, func: Any, args: Any, kwargs: Any, operands: list[Tensor], union: Mark) -> Any:
        """Mark the results of a higher-order operator by its bodies, or as rounded if these cannot be seen."""
        if not bodies.has_truth(func):
            self.invalid_in_fp64 = self.invalid_in_fp64 or f"{func} hides its operators"
        result = bodies.call(self, func, args, kwargs)
        for output in tensors(result):
            hidden = union | (Mark.ROUNDED if is_inexact(output) else Mark.DISCRETE)
            seen = self.marks(output) | (union & Mark.DISCRETE)  # the choice of the body may depend on a last bit
            if func.name() in bodies.RETURNED:
                self._tell(output, seen, self.terms_in(output))
            else:
                rows = max((size for operand in operands for size in operand.shape), default=1)
                self._tell(output, hidden, max(self.terms, rows))
        return result

    def launched(self, given: list[Tensor], written: list[Tensor]) -> None:
        """Mark what a Triton kernel has written: it rounds, in a precision of its own."""
        self.invalid_in_fp64 = self.invalid_in_fp64 or "a Triton kernel hides what it computes"
        union = _union(map(self.marks, given)) | self._read
        terms = max((size for tensor in given for size in tensor.shape), default=1)
        for output in written:
            mark = union | (Mark.ROUNDED if is_inexact(output) else Mark.DISCRETE)
            self._tell(output, mark, max(self.terms, terms), partly=True)

    def _notice(self, func: Any, name: str, operands: list[Tensor], drew: bool) -> None:
        if not self.invalid_in_fp64:
            self.invalid_in_fp64 = _why_invalid_in_fp64(func, name, operands, drew)


def _mark_of(name: str, kwargs: Any, operands: list[Tensor], output: Tensor, union: Mark) -> Mark:
    stepped = Mark.DISCRETE if Mark.ROUNDED in union or name in STEPPING else Mark.EXACT
    if not is_inexact(output):
        return (union & ~Mark.ROUNDED) | stepped
    is_jump = jumps(name, kwargs, operands)
    mark = union | stepped if is_jump else union
    is_exact = is_jump or name in EXACT
    if not is_exact or narrows(name, operands, output) or computes(name, kwargs, operands):
        mark |= Mark.ROUNDED
    return mark


def _why_invalid_in_fp64(func: Any, name: str, operands: list[Tensor], drew: bool) -> str:
    """Why a program with this operator means something else in double precision; empty if it means the same."""
    if name in ("nextafter", "frexp"):
        return f"{name} depends on the precision of its operand"
    if name == "view" and func._overloadname == "dtype" and any(map(is_inexact, operands)):
        return "view(dtype) reads the bits of floating values"
    if drew and name not in DRAWN_ONCE and name != NATIVE_DROPOUT:
        return f"{name} mixes drawn numbers with computed values"
    return ""


class Calls(TorchFunctionMode):
    """Records the torch calls of a run with their number arguments, to detect a program that branches on a dtype.

    Numbers are included, since ``torch.finfo(x.dtype).min`` shows nowhere else. Casts and copies are not: they vanish when
    everything has one dtype.
    """

    _VANISHING = CASTS | {"alias", "clone", "contiguous", "detach"}

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[float, ...]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func)).split(".")[0]
        if name not in self._VANISHING and not name.startswith("__"):
            numbers = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, float))
            self.seen.append((name, tuple(numbers)))
        return func(*args, **kwargs)

    def agrees_with(self, other: Calls) -> bool:
        """Whether both runs made the same calls, with the same numbers up to rounding."""
        if [name for name, _ in self.seen] != [name for name, _ in other.seen]:
            return False
        pairs = zip(self.seen, other.seen, strict=True)
        return all(len(one) == len(two) and all(map(_near, one, two)) for (_, one), (_, two) in pairs)


def _overwrite(tensor: Tensor) -> None:
    with torch.no_grad():
        if tensor.dtype is torch.bool:
            tensor.fill_(True)
        elif tensor.layout is torch.strided:
            tensor.fill_(_FILL if tensor.dtype.itemsize > 1 else _SMALL_FILL)


def _union(marks: Any) -> Mark:
    union = Mark.EXACT
    for mark in marks:
        union |= mark
    return union


def _near(one: float, two: float) -> bool:
    return one == two or (one != one and two != two) or math.isclose(one, two, rel_tol=1e-2)


def _storage(tensor: Tensor) -> int:
    """What the marks of a tensor are kept by: its storage, which views share, or itself if it has none."""
    storage = storage_of(tensor)
    return -id(tensor) if storage is None else storage._cdata
