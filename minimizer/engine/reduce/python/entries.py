"""Finds the entries to the compiler in a script's syntax tree, so that comments and messages do not count."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from minimizer.engine.user_script.syntax import full_name, imported

ENTRY = "torch.compile"
OPTIMIZE = ("torch._dynamo.optimize", "torch._dynamo.optimize_assert")
"""Entries to the compiler whose first argument is the backend, not the function."""


def is_compiled(text: str) -> bool:
    """Whether a script, or one in a string of it, uses ``torch.compile`` by any name, or an object's ``compile()``."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    names = imported(tree)
    return any(_compiles(node, names) for node in ast.walk(tree))


def _compiles(node: ast.AST, names: Mapping[str, str]) -> bool:
    if isinstance(node, ast.Call) and is_method(node.func, names):
        return True
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "\n" in node.value.strip() and is_compiled(node.value)
    return full_name(node, names) == ENTRY


def is_method(function: ast.expr, names: Mapping[str, str]) -> bool:
    """Whether a called expression is the ``compile`` of an object, such as a model, and not of an imported module."""
    is_compile = isinstance(function, ast.Attribute) and function.attr == "compile"
    return is_compile and ast.unparse(function).partition(".")[0] not in names


def with_word(entry: ast.AST, name: str, value: bool | str) -> ast.Call:
    """An entry to the compiler, called or as a decorator, with this keyword argument set."""
    assert isinstance(entry, ast.expr)
    call = entry if isinstance(entry, ast.Call) else ast.Call(func=entry, args=[], keywords=[])
    call.keywords = [*(word for word in call.keywords if word.arg != name), ast.keyword(name, ast.Constant(value))]
    return call
