"""The comparator: compares everything a caller can see of one compiled call with eager.

It looks at the boundary only: results, inputs after the call, gradients. It flags values, NaN and Inf positions, dtype, shape,
strides, shared storage, requires_grad, types and plain Python values. It does not flag properties that no caller can rely on:
strides of dimensions of size 0 or 1, NaN payloads, the sign of zero, padding, and strides of gradients (autograd itself changes the
layout of leaf gradients, and guarantees none for others).

Whether a wrong value is a *fault* or legal rounding is not decided here but in ``referee``. Tolerances are those of
``torch.testing.assert_close``; integers and booleans are exact.

Each check is a small function over the whole boundary, listed in ``CHECKS``: a test removes them one by one and shows that
some example then goes unnoticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ..rulings import Unlike
from ..values.boundary import (
    WRONG_GRADIENT,
    WRONG_METADATA,
    WRONG_OUTPUT,
    Boundary,
    Difference,
    Pair,
    boundary_of,
    compares_by_identity,
    outline,
)
from ..values.elements import Tolerance, default_tolerance, plain, short
from ..values.snapshot import has_plain_storage, storage_of
from .call import Side

Check = Callable[[Boundary], Iterator[Difference]]


def compare(
    expected: Side, actual: Side, tolerance: Tolerance | None = None, *, identity: bool = False
) -> list[Difference]:
    """All differences between the two sides of a call, wrong values first; empty when a caller cannot tell them apart.

    What the values of a tensor owe to another dtype alone, as an overflow, comes behind that.

    Args:
        expected: eager's side.
        actual: the compiled side, which ran on its own copy of the inputs.
        tolerance: replaces the dtype's, if the script has its own.
        identity: whether outputs that are one object count, where eager's are two; see `check_identity`.
    """
    boundary = _boundary(expected, actual, tolerance)
    checks = (check_identity, *CHECKS) if identity else CHECKS
    found = [difference for check in checks for difference in check(boundary)]
    recast = {pair.where for pair in boundary.tensors if tolerance is None and _is_only_recast(pair)}

    def rank(difference: Difference) -> tuple[int, bool]:
        kind = WRONG_METADATA if difference.where in recast else difference.kind
        return (WRONG_OUTPUT, WRONG_GRADIENT, WRONG_METADATA).index(kind), kind is not difference.kind

    return sorted(found, key=rank)


def opaque(expected: Side, actual: Side) -> list[str]:
    """The places of objects of one type that nothing else is known of, which `compare` takes for equal."""
    pairs = [pair for pair in _boundary(expected, actual).pairs if not isinstance(pair.expected, Tensor)]
    alike = (pair for pair in pairs if type(pair.expected) is type(pair.actual))
    return [pair.where for pair in alike if _are_equal(pair.expected, pair.actual) is None]


def _boundary(expected: Side, actual: Side, tolerance: Tolerance | None = None) -> Boundary:
    inputs = ("input", list(expected.inputs), list(actual.inputs))
    gradients = ("grad", list(expected.gradients), list(actual.gradients))
    return boundary_of([("output", expected.result, actual.result), inputs, gradients], tolerance)


# --- the checks ---------------------------------------------------------------------------------------------------------------


def check_structure(boundary: Boundary) -> Iterator[Difference]:
    """Containers of another type or length, a tensor in place of another value, another device or layout."""
    yield from boundary.structure
    for pair in boundary.pairs:
        if isinstance(pair.expected, Tensor) != isinstance(pair.actual, Tensor):
            kind = WRONG_METADATA if _is_absent_or_zero(pair) else pair.value_kind
            is_absent = pair.expected is None or pair.actual is None
            yield _plain_difference(pair, kind, "type", Unlike.ABSENT if is_absent else Unlike.CLASS)
        elif pair.are_tensors:
            expected, actual = _sort_of_tensor(pair.expected), _sort_of_tensor(pair.actual)
            if unlike := [aspect for aspect in expected if expected[aspect] != actual[aspect]]:
                one, other = (", ".join(sort.values()) for sort in (expected, actual))
                yield Difference(pair.where, WRONG_METADATA, "type", one, other, unlike=unlike[0])


def check_python(boundary: Boundary) -> Iterator[Difference]:
    """Numbers, strings and other plain objects: equal, floats within float64's tolerance, NaN equal to NaN."""
    for pair in boundary.pairs:
        neither = not isinstance(pair.expected, Tensor) and not isinstance(pair.actual, Tensor)
        if neither and not _may_be_equal(pair.expected, pair.actual):
            yield _plain_difference(pair, pair.value_kind, "python")


def check_shape(boundary: Boundary) -> Iterator[Difference]:
    """Shapes; (5,) is not (1,), whether or not the values would broadcast."""
    for pair in boundary.tensors:
        if not pair.same_shape:
            kind = WRONG_METADATA if pair.comparable else pair.value_kind
            yield Difference(pair.where, kind, "shape", str(tuple(pair.expected.shape)), str(tuple(pair.actual.shape)))


def check_dtype(boundary: Boundary) -> Iterator[Difference]:
    for pair in boundary.tensors:
        if pair.expected.dtype != pair.actual.dtype:
            yield Difference(pair.where, WRONG_METADATA, "dtype", short(pair.expected.dtype), short(pair.actual.dtype))


def check_values(boundary: Boundary) -> Iterator[Difference]:
    """Finite values of outputs and inputs beyond the tolerance."""
    yield from _element_differences(boundary, gradients=False, what="value")


def check_nan(boundary: Boundary) -> Iterator[Difference]:
    """NaN on one side only. A NaN on both sides hides nothing, since every element is compared."""
    yield from _element_differences(boundary, gradients=False, what="nan")


def check_inf(boundary: Boundary) -> Iterator[Difference]:
    """An infinity on one side only, or with opposite signs."""
    yield from _element_differences(boundary, gradients=False, what="inf")


def check_gradients(boundary: Boundary) -> Iterator[Difference]:
    """Gradients: values, NaN and Inf positions."""
    for what in ("value", "nan", "inf"):
        yield from _element_differences(boundary, gradients=True, what=what)


def check_stride(boundary: Boundary) -> Iterator[Difference]:
    """Strides of dimensions that have more than one element, in tensors that have any."""
    for pair in _laid_out_alike(boundary):
        strided = pair.expected.layout is torch.strided and pair.actual.layout is torch.strided
        if not strided or not pair.same_shape or pair.expected.numel() == 0:
            continue
        expected, actual = pair.expected.stride(), pair.actual.stride()
        if any(e != a for e, a, size in zip(expected, actual, pair.expected.shape, strict=True) if size > 1):
            yield Difference(pair.where, WRONG_METADATA, "stride", str(expected), str(actual))


def check_requires_grad(boundary: Boundary) -> Iterator[Difference]:
    for pair in boundary.visible:
        if pair.expected.requires_grad != pair.actual.requires_grad:
            expected, actual = str(pair.expected.requires_grad), str(pair.actual.requires_grad)
            yield Difference(pair.where, WRONG_METADATA, "requires_grad", expected, actual)


def check_aliasing(boundary: Boundary) -> Iterator[Difference]:
    """Outputs that share a storage with other inputs or outputs than in eager: a later in-place op would show there."""
    pairs = [pair for pair in _laid_out_alike(boundary) if _storage(pair.expected) and _storage(pair.actual)]
    pairs.sort(key=lambda pair: not pair.where.startswith("input"))  # so that an output is said to share with an input
    first_expected: dict[int, str] = {}
    first_actual: dict[int, str] = {}
    for pair in pairs:
        expected = first_expected.setdefault(_storage(pair.expected), pair.where)
        actual = first_actual.setdefault(_storage(pair.actual), pair.where)
        if expected != actual:
            one, other = ("" if first == pair.where else first for first in (expected, actual))
            yield Difference(
                pair.where,
                WRONG_METADATA,
                "aliasing",
                _sharing(one),
                _sharing(other),
                expected_alias=one,
                actual_alias=other,
            )


def check_identity(boundary: Boundary) -> Iterator[Difference]:
    """Outputs that are one object where eager returns two: a later ``resize_`` or ``requires_grad_`` of one would change both.

    Not among `CHECKS`: Inductor returns a view with the shape of its base as the base, and few callers change more than elements.
    """
    first_expected: dict[int, str] = {}
    first_actual: dict[int, str] = {}
    for pair in (pair for pair in boundary.visible if pair.where.startswith("output")):
        expected = first_expected.setdefault(id(pair.expected), pair.where)
        actual = first_actual.setdefault(id(pair.actual), pair.where)
        if actual not in (expected, pair.where):
            one, other = "an object of its own", f"the object of {actual}"
            yield Difference(pair.where, WRONG_METADATA, "identity", one, other, actual_alias=actual)


CHECKS: tuple[Check, ...] = (
    check_structure,
    check_python,
    check_values,
    check_nan,
    check_inf,
    check_gradients,
    check_shape,
    check_dtype,
    check_requires_grad,
    check_aliasing,
    check_stride,  # last, since every other visible difference matters more
)


def _is_only_recast(pair: Pair) -> bool:
    """Whether eager's floating-point values, cast to the compiled side's dtype, are the compiled ones."""
    one, other = pair.expected, pair.actual
    if one.dtype == other.dtype or not (one.is_floating_point() and other.is_floating_point()):
        return False
    cast = boundary_of([("output", one.detach().to(other.dtype), other.detach())])
    return not any(list(_element_differences(cast, gradients=False, what=what)) for what in ("value", "nan", "inf"))


# --- small things -------------------------------------------------------------------------------------------------------------


def _element_differences(boundary: Boundary, *, gradients: bool, what: str) -> Iterator[Difference]:
    for pair in boundary.tensors:
        diff = pair.elements
        if pair.is_gradient is not gradients or diff is None or not diff.count[what]:
            continue
        numbers: dict[str, Any] = {**diff.numbers} if what == "value" else {}
        index = diff.first[what]
        yield Difference(
            pair.where,
            pair.value_kind,
            what,
            expected=diff.sample(pair.expected, index),
            actual=diff.sample(pair.actual, index),
            mismatched=diff.count[what],
            elements=diff.total,
            index=index,
            **numbers,
        )


def _laid_out_alike(boundary: Boundary) -> list[Pair]:
    """Outputs, and inputs with plain storage. ``clone()`` may change the layout of other inputs, so their layout is not compared."""
    return [p for p in boundary.visible if not p.where.startswith("input") or has_plain_storage(p.expected)]


def _is_absent_or_zero(pair: Pair) -> bool:
    """Whether a gradient is None on one side and all zeros on the other, which is a metadata difference and not a wrong value."""
    tensor, other = (pair.expected, pair.actual) if isinstance(pair.expected, Tensor) else (pair.actual, pair.expected)
    return pair.is_gradient and other is None and not bool(plain(tensor).count_nonzero())


def _sort_of_tensor(tensor: Tensor) -> dict[Unlike, str]:
    # A subclass without dispatch, such as Parameter, holds the same data as a Tensor. A graph may return either, and Dynamo sets
    # the class on the value that the script gets.
    is_plain = type(tensor).__torch_dispatch__ is Tensor.__torch_dispatch__
    sort = "Tensor" if is_plain else type(tensor).__qualname__
    return {Unlike.CLASS: sort, Unlike.LAYOUT: short(tensor.layout), Unlike.DEVICE: str(tensor.device)}


def _may_be_equal(expected: Any, actual: Any) -> bool:
    """Whether two plain values are equal; of opaque objects, whether their types are (`opaque`)."""
    are_equal = _are_equal(expected, actual)
    return type(expected) is type(actual) if are_equal is None else are_equal


def _are_equal(expected: Any, actual: Any) -> bool | None:
    """Whether two plain values are equal; None if neither says so."""
    if isinstance(expected, (int, float, complex)) and isinstance(actual, (int, float, complex)):
        if isinstance(expected, bool) != isinstance(actual, bool):
            return False
        if isinstance(expected, int) and isinstance(actual, int):
            return int(expected) == int(actual)
        tolerance = default_tolerance(torch.float64)
        return type(expected) is type(actual) and _close(complex(expected), complex(actual), tolerance)
    if expected is actual:
        return True
    if compares_by_identity(expected):
        return None
    try:
        return bool(expected == actual)
    except Exception:
        return None


def _close(expected: complex, actual: complex, tolerance: Tolerance) -> bool:
    for e, a in ((expected.real, actual.real), (expected.imag, actual.imag)):
        if not (e == a or (e != e and a != a) or abs(e - a) <= tolerance.atol + tolerance.rtol * abs(e) < math.inf):
            return False
    return True


def _storage(tensor: Tensor) -> int:
    """The identity of a tensor's storage; 0 if it has none that could be shared."""
    storage = storage_of(tensor)
    return storage._cdata if storage is not None and storage.nbytes() > 0 else 0


def _sharing(other: str) -> str:
    return f"shares storage with {other}" if other else "storage of its own"


def _plain_difference(pair: Pair, kind: str, what: str, unlike: Unlike | None = None) -> Difference:
    return Difference(pair.where, kind, what, outline(pair.expected), outline(pair.actual), unlike=unlike)
