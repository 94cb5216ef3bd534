"""The boundary of one call: pairs of eager and compiled places, from walking the two nested results in step.

`compare` decides which places differ; only places without a counterpart are reported as differences here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..rulings import Unlike
from .elements import ElementDiff, Tolerance, default_tolerance, diff_elements, short

WRONG_OUTPUT, WRONG_GRADIENT, WRONG_METADATA = "wrong_output", "wrong_gradient", "wrong_metadata"


@dataclass(frozen=True)
class Difference:
    """One difference visible to the caller.

    ``required_atol`` is the smallest atol that would pass with the dtype's rtol, ``required_rtol`` the smallest rtol
    that would pass with the dtype's atol; infinite if none would. ``index`` is the index of the first mismatched
    element.
    """

    where: str
    kind: str
    what: str
    expected: str
    actual: str
    max_abs: float | None = None
    max_rel: float | None = None
    mismatched: int | None = None
    elements: int | None = None
    required_atol: float | None = None
    required_rtol: float | None = None
    index: tuple[int, ...] | None = None
    rtol: float | None = None
    """The relative tolerance that goes with `required_atol`, for a fault that ``assert_close`` would pass."""
    unlike: Unlike | None = None
    """The first thing that differs, if ``what`` is the type."""
    expected_alias: str = ""
    """The place with which eager's tensor shares its storage, or whose object it is; empty if it has its own."""
    actual_alias: str = ""
    """The same of the compiled one."""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}: expected {self.expected}, got {self.actual}"
        if self.mismatched is not None:
            text += f" ({self.mismatched} of {self.elements} elements"
            text += f", max abs {self.max_abs:.3g}, max rel {self.max_rel:.3g})" if self.max_abs is not None else ")"
        return text


@dataclass
class Pair:
    """One place of the boundary, with its eager and its compiled value."""

    where: str
    expected: Any
    actual: Any
    tolerance: Tolerance | None = None

    @property
    def is_gradient(self) -> bool:
        return self.where.startswith("grad")

    @property
    def are_tensors(self) -> bool:
        return isinstance(self.expected, Tensor) and isinstance(self.actual, Tensor)

    @property
    def value_kind(self) -> str:
        return WRONG_GRADIENT if self.is_gradient else WRONG_OUTPUT

    @property
    def same_shape(self) -> bool:
        return self.expected.shape == self.actual.shape

    @property
    def comparable(self) -> bool:
        """Whether elements can be compared, perhaps by broadcasting; then a wrong shape is a metadata fault, else a
        wrong output.
        """
        try:
            shape = torch.broadcast_shapes(self.expected.shape, self.actual.shape)
        except RuntimeError:
            return False
        return (math.prod(shape) == 0) == (self.expected.numel() == 0) == (self.actual.numel() == 0)

    @cached_property
    def elements(self) -> ElementDiff | None:
        """The elementwise difference; None if there is none. Computed once for all checks."""
        if not self.are_tensors or not self.comparable:
            return None
        tolerance = self.tolerance or default_tolerance(self.expected.dtype, self.actual.dtype)
        return diff_elements(self.expected, self.actual, tolerance)


@dataclass
class Boundary:
    """All places of one call, flat, and the structural differences found while walking the two sides."""

    pairs: list[Pair] = field(default_factory=list)
    structure: list[Difference] = field(default_factory=list)

    @property
    def tensors(self) -> list[Pair]:
        return [pair for pair in self.pairs if pair.are_tensors]

    @property
    def visible(self) -> list[Pair]:
        """Pairs of outputs and inputs, whose metadata counts in full (that of gradients does not)."""
        return [pair for pair in self.tensors if not pair.is_gradient]


def boundary_of(sides: Iterable[tuple[str, Any, Any]], tolerance: Tolerance | None = None) -> Boundary:
    """The boundary of a call, from its parts (``output``, ``input``, ``grad``), each with its eager and compiled value."""
    boundary = Boundary()
    walker = _Walker(boundary, tolerance)
    for name, expected, actual in sides:
        walker.walk(name, expected, actual)
    return boundary


def places(outputs: Any, inputs: Sequence[Any] = (), grads: Sequence[Any] = ()) -> dict[str, Tensor]:
    """The tensors of one side, by place as in ``Difference.where``."""
    sides = (("output", outputs), ("input", list(inputs)), ("grad", list(grads)))
    boundary = boundary_of((name, values, values) for name, values in sides)
    return {pair.where: pair.expected for pair in boundary.tensors}


class _Walker:
    """Walks two nests of containers in step and collects the pairs of leaves."""

    def __init__(self, boundary: Boundary, tolerance: Tolerance | None) -> None:
        self._boundary = boundary
        self._tolerance = tolerance
        self._open: set[tuple[int, int]] = set()

    def walk(self, where: str, expected: Any, actual: Any) -> None:
        shape = _container(expected)
        if shape != _container(actual):
            if shape is None or _container(actual) is None:
                self._leaf(where, expected, actual)
            else:
                self._children(where, expected, actual, same_type=False)
        elif shape is None:
            self._leaf(where, expected, actual)
        elif (id(expected), id(actual)) not in self._open:  # a container may contain itself
            self._open.add((id(expected), id(actual)))
            self._children(where, expected, actual)
            # Only containers being walked right now: ids of freed objects may be reused.
            self._open.remove((id(expected), id(actual)))

    def _children(self, where: str, expected: Any, actual: Any, *, same_type: bool = True) -> None:
        one, other = _items(expected), _items(actual)
        if one.keys() != other.keys():
            self._mismatch(where, WRONG_OUTPUT, expected, actual)
        elif not same_type:
            self._mismatch(where, WRONG_METADATA, expected, actual)
        elif list(one) != list(other):
            self._boundary.structure.append(
                Difference(where, WRONG_METADATA, "python", f"order {_text(list(one))}", f"order {_text(list(other))}")
            )
        for key, item in one.items():
            if key in other:
                self.walk(f"{where}{key}", item, other[key])

    def _leaf(self, where: str, expected: Any, actual: Any) -> None:
        if isinstance(expected, Tensor) and isinstance(actual, Tensor) and type(expected) is type(actual):
            inner = _inner_tensors(expected)
            if inner:  # a wrapper subclass is compared by its inner tensors
                for name in inner:
                    self._leaf(f"{where}.{name}", getattr(expected, name, None), getattr(actual, name, None))
                return
        self._boundary.pairs.append(Pair(where, expected, actual, self._tolerance))

    def _mismatch(self, where: str, kind: str, expected: Any, actual: Any) -> None:
        self._boundary.structure.append(
            Difference(where, kind, "type", outline(expected), outline(actual), unlike=Unlike.CLASS)
        )


def _container(value: Any) -> str | None:
    """The type of container of a value; None for a leaf.

    Subclasses that torch.compile returns as their plain base (FX's immutable lists, ``torch.Size``,
    ``torch.return_types``) count as that base.
    """
    if isinstance(value, tuple):
        return type(value).__qualname__ if hasattr(value, "_fields") else "tuple"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "dict"
    if _is_record(value):
        return type(value).__qualname__
    return None


def _is_record(value: Any) -> bool:
    """Whether a value is a plain object that is defined by its attributes, such as a dataclass instance returned as a result."""
    opaque = isinstance(value, (type, torch.nn.Module, Tensor)) or callable(value) or not hasattr(value, "__dict__")
    return not opaque and (compares_by_identity(value) or hasattr(value, "__dataclass_fields__"))


def compares_by_identity(value: Any) -> bool:
    equality: Any = type(value).__eq__
    return equality is object.__eq__


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"[{key!r}]": item for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return {f"[{index}]": item for index, item in enumerate(value)}
    return {f".{name}": item for name, item in vars(value).items()}


def _inner_tensors(value: Tensor) -> Sequence[str]:
    flatten = getattr(value, "__tensor_flatten__", None)
    return flatten()[0] if flatten is not None else ()


def outline(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor{tuple(value.shape)} {short(value.dtype)}"
    if isinstance(value, (tuple, list, dict)):
        return f"{type(value).__name__} of {len(value)}"
    return _text(value)


def _text(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__qualname__}>"
    return text if len(text) <= 80 else text[:77] + "..."
