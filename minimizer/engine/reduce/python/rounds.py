"""Rounds of a loop or comprehension: the items that a script spells out, and the names bound to them."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from minimizer.engine.reduce.python.source import Source
from minimizer.engine.user_script.statements import with_values

LISTS = (ast.Tuple, ast.List)
N = TypeVar("N", bound=ast.AST)


def bound(target: ast.expr, item: ast.expr) -> dict[str, ast.expr] | None:
    """The expression that each target of a loop is bound to in a round; None if the script does not spell it out."""
    if isinstance(target, ast.Name):
        return {target.id: item}
    if not isinstance(target, LISTS) or not isinstance(item, LISTS) or len(target.elts) != len(item.elts):
        return None
    parts = [bound(one, two) for one, two in zip(target.elts, item.elts, strict=True)]
    return None if None in parts else {name: value for part in parts if part for name, value in part.items()}


@dataclass(frozen=True)
class Items:
    """The items of a loop, each written only on request."""

    count: int
    at: Callable[[int], ast.expr]


NO_ITEMS = Items(0, lambda _: ast.Constant(None))


def items_of(source: Source, values: ast.expr, within: frozenset[str] = frozenset()) -> Items:
    """The items of a loop, if the script spells them out; else none.

    ``within``: the names whose values are being examined.
    """
    if isinstance(values, ast.Name):
        given = [a.value for a in source.statements if isinstance(a, ast.Assign) and is_name(a.targets[0], values.id)]
        is_known = len(given) == 1 and not isinstance(given[0], ast.Name) and values.id not in within
        return items_of(source, given[0], within | {values.id}) if is_known else NO_ITEMS
    if isinstance(values, LISTS):
        is_open = any(isinstance(e, ast.Starred) for e in values.elts)
        return NO_ITEMS if is_open else Items(len(values.elts), values.elts.__getitem__)
    if not isinstance(values, ast.Call) or not isinstance(values.func, ast.Name):
        return NO_ITEMS
    if not values.args and not values.keywords:
        return _yielded(source, values.func.id)
    if not values.args:
        return NO_ITEMS
    if values.func.id == "range":
        return _numbers(values.args)
    if values.func.id == "enumerate" and len(values.args) == 1:
        inner = items_of(source, values.args[0], within)
        return Items(inner.count, lambda n: ast.Tuple([ast.Constant(n), inner.at(n)], ast.Load()))
    if values.func.id == "zip":
        columns = [items_of(source, part, within) for part in values.args]
        count = min(column.count for column in columns)
        return Items(count, lambda n: ast.Tuple([column.at(n) for column in columns], ast.Load()))
    return NO_ITEMS


def _yielded(source: Source, name: str) -> Items:
    """The values that a generator of the script yields, if it does nothing else."""
    made = [s for s in source.statements if isinstance(s, ast.FunctionDef) and s.name == name]
    is_plain = len(made) == 1 and not made[0].decorator_list and not ast.unparse(made[0].args)
    body = made[0].body if is_plain else []
    yielded = [s.value.value for s in body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Yield)]
    items = [value if value is not None else ast.Constant(None) for value in yielded]
    return Items(len(items), items.__getitem__) if body and len(items) == len(body) else NO_ITEMS


def _numbers(arguments: Sequence[ast.expr]) -> Items:
    """The items of a ``range`` between constants."""
    try:
        numbers = range(*map(ast.literal_eval, arguments))
        return Items(len(numbers), lambda n: ast.Constant(numbers[n]))
    except (TypeError, ValueError, OverflowError):  # not constants, an invalid range, or one too long to have a length
        return NO_ITEMS


def renamed(node: N, values: dict[str, ast.expr]) -> N:
    """A copy with expressions in place of names."""
    return with_values(copy.deepcopy(node), values)


def is_name(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
