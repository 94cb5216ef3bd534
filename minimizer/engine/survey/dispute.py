"""Rules for a failing check of the script's own while all compared calls match eager: is the failure disputed?

A check of values may pass with a wider tolerance, or another random stream. It is disputed unless it also fails on
eager's own kernels, where neither matters. If no graph carries the failure of another check, the script itself is
reduced.

The operands of ``assert_close`` were recorded when it failed. For an ``assert``, a ``raise`` or an exit, the condition
is read from the script's text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.survey.cases import is_own_check
from minimizer.engine.survey.readings import Check, Sources, located, reads_compiler, sources_of
from minimizer.engine.survey.rules import Rule, Rules, always, verdict_by

STRUCTURE_CALLS = {
    "callable", "dim", "element_size", "get_device", "hasattr", "is_complex", "is_contiguous", "is_floating_point", "isinstance",
    "issubclass", "len", "ndimension", "nelement", "numel", "size", "storage_offset", "stride", "type",
}  # fmt: skip
STRUCTURE_ATTRIBUTES = {
    "__class__", "device", "dtype", "grad_fn", "is_leaf", "itemsize", "layout", "names", "nbytes", "ndim", "requires_grad", "shape",
}  # fmt: skip
"""Functions, methods and attributes that describe the structure of a value, not its magnitude."""
CLOCK = re.compile(r"\btime(it)?\b|perf_counter")


class Ground(Enum):
    """The ground for disputing a failing check: a possible cause other than the compiler."""

    READING = "a clock or a counter of the compiler"
    VALUES = "a tolerance or the random stream"
    NONE = "none: it is not disputed"


@dataclass(frozen=True)
class FailedCheck:
    """An exception that ended a script, with the script and its failing ``assert_close`` comparisons, in order.

    In these, ``tolerable`` is 0 if no tolerance would pass, and ``of_values`` is 1 if only values differ (see
    ``inside/watch/tolerances.py``).
    """

    text: str
    error: ExceptionInfo
    comparisons: Sequence[Mapping[str, float]]

    def passes_by_no_tolerance(self) -> bool:
        return bool(self.comparisons) and self.comparisons[-1].get("tolerable", 1.0) == 0.0


DISPUTES: Rules[FailedCheck, Ground] = (
    Rule("no check of the script's own", "an exception is a failure like others",
         lambda check: not is_own_check(check.error), lambda _: Ground.NONE),
    Rule("it reads a clock or a counter of the compiler", "that is no evidence on values",
         lambda check: reads_compiler(check.text, check.error), lambda _: Ground.READING),
    Rule("`assert_close`, whatever the tolerance", "a missing value, another shape, dtype or layout, or NaN for a number",
         lambda check: _is_assert_close(check.error) and check.passes_by_no_tolerance(), lambda _: Ground.NONE),
    Rule("`assert_close`", "a wider tolerance lets it pass", lambda check: _is_assert_close(check.error), lambda _: Ground.VALUES),
    Rule("a condition on structure", "a missing value, another type, shape, dtype or layout, an exception that is raised or is not",
         lambda check: _is_of_structure(check.text, check.error), lambda _: Ground.NONE),
    Rule("any other condition", "it compares values", always, lambda _: Ground.VALUES),
)  # fmt: skip


def ground(text: str, error: ExceptionInfo, comparisons: Sequence[Mapping[str, float]] = ()) -> Ground:
    """The ground for disputing a failed check."""
    return verdict_by(DISPUTES, FailedCheck(text, error, comparisons))


def is_of_values(error: ExceptionInfo, checks: Sequence[Mapping[str, float]]) -> bool:
    """Whether ``assert_close`` failed by values only, including NaN against a number, which no tolerance excuses."""
    return is_own_check(error) and _is_assert_close(error) and bool(checks) and checks[-1].get("of_values", 0.0) != 0.0


def _is_assert_close(error: ExceptionInfo) -> bool:
    return bool(error.frames) and error.frames[-1][0].startswith("torch/testing/")


def names_clock(reduced: str) -> bool:
    """Whether a script reduced to its failing check still measures time, which its full text may have hidden."""
    return CLOCK.search(reduced) is not None


def _is_of_structure(text: str, error: ExceptionInfo) -> bool:
    """Whether all conditions that may have failed the check concern structure; False if its text is not found."""
    tree, found = located(text, error)
    sources = sources_of(tree)
    return bool(found) and all(_tests_structure(check, sources) for check in found)


def _tests_structure(check: Check, sources: Sources) -> bool:
    if not check.tests:
        return check.in_try  # it tests whether an exception was raised
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
