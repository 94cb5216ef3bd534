"""Rules for a failing check of the script's own while no compared call differs from eager: is the failure disputed?

1. A check that reads a clock, or a counter of the compiler, is no evidence on values (`Ground.READING`): disputed.
2. A check that no tolerance could let pass is never disputed: a missing value, another type, shape, dtype or layout, an
   exception that is raised or is not. If no graph carries it, the script itself is reduced.
3. Any other check compares values (`Ground.VALUES`): it may pass with a wider tolerance, or another random stream. It
   is disputed unless it fails on eager's own kernels too, where neither plays a role.

The operands of ``assert_close`` were recorded when it failed. For an ``assert``, a ``raise`` or an exit, the condition
is read from the script's text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from enum import Enum

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.survey.cases import is_own_check
from minimizer.engine.survey.readings import Check, Sources, checks_at, reads_compiler, sources_of

STRUCTURE_CALLS = frozenset(
    [
        "callable",
        "dim",
        "element_size",
        "get_device",
        "hasattr",
        "is_complex",
        "is_contiguous",
        "is_floating_point",
        "isinstance",
        "issubclass",
        "len",
        "ndimension",
        "nelement",
        "numel",
        "size",
        "storage_offset",
        "stride",
        "type",
    ]
)
STRUCTURE_ATTRIBUTES = frozenset(
    [
        "__class__",
        "device",
        "dtype",
        "grad_fn",
        "is_leaf",
        "itemsize",
        "layout",
        "names",
        "nbytes",
        "ndim",
        "requires_grad",
        "shape",
    ]
)
"""Functions, methods and attributes that describe the structure of a value, not its magnitude."""


CLOCK = re.compile(r"\btime(it)?\b|perf_counter")


class Ground(Enum):
    """The ground on which a failing check is disputed: the cause that it may have other than the compiler."""

    READING = "a clock or a counter of the compiler"
    VALUES = "a tolerance or the random stream"


def ground(text: str, error: ExceptionInfo, checks: Sequence[Mapping[str, float]] = ()) -> Ground | None:
    """The ground on which a failure is disputed; None if it is not.

    Args:
        text: the script.
        error: the exception that ended it.
        checks: failing comparisons of the script by ``assert_close``, in order; ``tolerable`` is 0 if no tolerance
            would have let it pass, ``of_values`` is 1 if only values differ (see ``inside/watch/tolerances.py``).
    """
    if not is_own_check(error):
        return None
    if reads_compiler(text, error):
        return Ground.READING
    if _is_assert_close(error):
        is_excusable = not checks or checks[-1].get("tolerable", 1.0) != 0.0
        return Ground.VALUES if is_excusable else None
    return None if _is_of_structure(text, error) else Ground.VALUES


def is_of_values(error: ExceptionInfo, checks: Sequence[Mapping[str, float]]) -> bool:
    """Whether ``assert_close`` failed by values only, including NaN for a number, which no tolerance excuses."""
    return is_own_check(error) and _is_assert_close(error) and bool(checks) and checks[-1].get("of_values", 0.0) != 0.0


def _is_assert_close(error: ExceptionInfo) -> bool:
    return bool(error.frames) and error.frames[-1][0].startswith("torch/testing/")


def names_clock(reduced: str) -> bool:
    """Whether a script reduced to its failing check still measures time, which its whole text may have hidden."""
    return CLOCK.search(reduced) is not None


def _is_of_structure(text: str, error: ExceptionInfo) -> bool:
    """Whether all conditions that may have made the check fail concern structure; False if its text is not found."""
    line = error.frames[-1][2] if error.frames and "/" not in error.frames[-1][0] else ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    found, sources = list(checks_at(tree, text.splitlines(), line)) if line else [], sources_of(tree)
    return bool(found) and all(_tests_structure(check, sources) for check in found)


def _tests_structure(check: Check, sources: Sources) -> bool:
    if not check.tests:
        return check.in_try  # it depends on whether something was raised
    return _says_what_it_is(check.tests[-1], sources, frozenset())


def _says_what_it_is(test: ast.AST, sources: Sources, seen: frozenset[str]) -> bool:
    """Whether all parts of a condition test the structure of values, and none their magnitude."""
    match test:
        case ast.BoolOp():
            return all(_says_what_it_is(value, sources, seen) for value in test.values)
        case ast.UnaryOp(op=ast.Not()):
            return _says_what_it_is(test.operand, sources, seen)
        case ast.Compare():
            return _is_structure(test) or any(_is_structure(side) for side in (test.left, *test.comparators))
        case ast.Name() if test.id not in seen:
            values = sources.get(test.id, [])
            return bool(values) and all(_says_what_it_is(value, sources, seen | {test.id}) for value in values)
        case ast.Constant():
            return True
        case _:
            return _is_structure(test)


def _is_structure(side: ast.AST) -> bool:
    """Whether an expression is a property such as type or shape, a part of one, or a tuple or list of them."""
    match side:
        case ast.Compare():
            return all(isinstance(operator, ast.Is | ast.IsNot) for operator in side.ops)
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in STRUCTURE_CALLS
        case ast.Attribute():
            return side.attr in STRUCTURE_ATTRIBUTES
        case ast.Subscript():
            return _is_structure(side.value)
        case ast.Tuple() | ast.List():
            return bool(side.elts) and all(_is_structure(item) for item in side.elts)
        case _:
            return False
