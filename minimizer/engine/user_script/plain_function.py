"""Finds the function that runs a line of a script as an ordinary call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def plain_function_at(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The innermost function around a line; None if it is no plain function, or one that yields."""
    around = [
        one for one in ast.walk(tree) if isinstance(one, INNER) and one.lineno <= line <= (one.end_lineno or line)
    ]
    innermost = max(around, key=lambda one: (one.lineno, one.col_offset), default=None)
    if not isinstance(innermost, ast.FunctionDef):
        return None
    return None if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own(innermost)) else innermost


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's own scope."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, INNER):
            yield from _own(node)
