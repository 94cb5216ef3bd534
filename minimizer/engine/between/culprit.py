"""Finds the line at fault in the user's script, from the reduced one, whose nodes keep their line numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from minimizer.engine.user_script.syntax import FUNCTIONS, decorators, imported

DEFAULT = re.compile(r"(\w+)\.__defaults__\[(\d+)\]")
PROMISES = ("assume_constant_result", "substitute_in_graph", "allow_in_graph")
"""Decorators by which a script makes a promise about a function that Dynamo trusts."""


def culprit_line(tree: ast.Module, what: str) -> int | None:
    """The line inside a function that changes ``what``; else the first line left in a function, compiled ones first.

    None if no function has a body left.
    """
    statements = list(_inside_functions(tree))
    name = _parameter(tree, what) or re.sub(r"(\[.*\])+$", "", what).rpartition(".")[2]
    changing = [s for s in statements if name.isidentifier() and _changes(s, name)]
    for statement in sorted(changing, key=lambda s: _makes(s, name)):
        return statement.lineno
    compiled = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and _is_decorated(node)]
    for function in [*compiled, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]:
        first = function.body[0] if isinstance(function.body, list) else function.body
        if isinstance(first, ast.Return):  # its operand may have been computed in an earlier line
            return next((n.lineno for n in ast.walk(first) if isinstance(n, ast.Call)), first.lineno)
        if not isinstance(first, ast.Pass):
            return first.lineno
    return None


def _parameter(tree: ast.Module, what: str) -> str:
    """The name of the parameter that has ``what`` as its default value; empty for other objects."""
    found = DEFAULT.search(what)
    if found is None:
        return ""
    for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == found[1]):
        given = [*function.args.posonlyargs, *function.args.args]
        with_default = given[len(given) - len(function.args.defaults) :]
        if int(found[2]) < len(with_default):
            return with_default[int(found[2])].arg
    return ""


def broken_promise(tree: ast.Module) -> tuple[str, int] | None:
    """The full name of the first of `PROMISES` that a reduced script still makes, and its line."""
    names = imported(tree)
    for node in ast.walk(tree):
        for name, line in decorators(node, names):
            if name.startswith("torch.") and name.rpartition(".")[2] in PROMISES:
                return name, line
    return None


def _inside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS) and isinstance(node.body, list):
            yield from (inner for outer in node.body for inner in ast.walk(outer) if isinstance(inner, ast.stmt))


def _changes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement assigns to an object of this name, or calls a method of it."""
    places: list[ast.AST] = []
    if isinstance(statement, ast.Assign | ast.Delete):
        places = list(statement.targets)
    elif isinstance(statement, ast.AugAssign):
        places = [statement.target]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        places = [function.value] if isinstance(function, ast.Attribute) else []
    return any(_names(node) == name for place in places for node in ast.walk(place))


def _makes(statement: ast.stmt, name: str) -> bool:
    """Whether a statement binds this name; a later one that changes the object has precedence as the culprit."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(n, ast.Name) and n.id == name for t in targets for n in [t, *getattr(t, "elts", ())])


def _names(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_decorated(node: ast.AST) -> bool:
    return any("compile" in ast.unparse(d) for d in getattr(node, "decorator_list", ()))
