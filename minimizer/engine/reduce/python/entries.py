"""How a script reaches the compiler, by its syntax tree: what stands in comments and in messages reaches nothing."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from minimizer.engine.user_script.syntax import full_name, imported


def is_compiled(text: str) -> bool:
    """Whether a script uses ``torch.compile`` by any name, or an object's own ``compile()``; so may a script that it holds as a string."""
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
    return full_name(node, names) == "torch.compile"


def is_method(function: ast.expr, names: Mapping[str, str]) -> bool:
    """Whether what is called is ``compile`` of an object, such as a model; of no module."""
    is_compile = isinstance(function, ast.Attribute) and function.attr == "compile"
    return is_compile and ast.unparse(function).partition(".")[0] not in names
