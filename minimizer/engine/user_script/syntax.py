"""Resolves names in a script's syntax tree: its imports, and the dotted path of an expression."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""Definitions that bind a name to a function or a class."""
DECLARATIONS = (ast.Import, ast.ImportFrom, *DEFINITIONS)
"""Statements that only bind names to modules, functions and classes."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
"""Nodes that create a function."""


def imported(tree: ast.Module) -> dict[str, str]:
    """The dotted path of each name that a script imports."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages = {name: name for alias in node.names if not alias.asname for name in alias.name.split(".")[:1]}
            found |= packages | {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def full_name(node: ast.AST, names: Mapping[str, str]) -> str:
    """The dotted path of a name or attribute, given the imported ``names``; empty for other nodes.

    An attribute of another expression, such as ``f().item``, gives ``.item``.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([names.get(node.id, node.id), *parts])
    return "." + ".".join(parts) if parts else ""


def names_read(nodes: Iterable[ast.AST]) -> list[str]:
    """The names read among these nodes, with repeats."""
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def names_stored(nodes: Iterable[ast.AST]) -> list[str]:
    """The names bound among these nodes, with repeats."""
    return [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def decorators(node: ast.AST, names: Mapping[str, str]) -> list[tuple[str, int]]:
    """The dotted path and the line of each decorator of a function or class, called or not; empty for other nodes."""
    found: list[ast.expr] = getattr(node, "decorator_list", [])
    return [(full_name(one.func if isinstance(one, ast.Call) else one, names), one.lineno) for one in found]


UNPARSED = f"its syntax is newer than minimizer's own Python {sys.version_info.major}.{sys.version_info.minor}"
"""Why our parsers leave a script in one piece: the Python that runs it is newer."""


def unparsed_at(text: bytes) -> str:
    """Where and why our own Python cannot parse a script, in words; empty if it can."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{line}{error.msg if isinstance(error, SyntaxError) else error}"
    return ""
