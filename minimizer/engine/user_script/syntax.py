"""Names in a script's syntax tree: what it imports, and what an expression stands for."""

from __future__ import annotations

import ast
from collections.abc import Mapping


def imported(tree: ast.Module) -> dict[str, str]:
    """The names that a script imports, and what they stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages = {name: name for alias in node.names if not alias.asname for name in alias.name.split(".")[:1]}
            found |= packages | {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return found


def full_name(node: ast.AST, names: Mapping[str, str]) -> str:
    """What a name or an attribute stands for, given the ``names`` that are imported; empty for other nodes.

    An attribute of what is no name, such as ``f().item``, is told by its own name: ``.item``.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([names.get(node.id, node.id), *parts])
    return "." + ".".join(parts) if parts else ""
