"""Finds the line where a script registers an operator, for the report."""

from __future__ import annotations

import ast
from collections.abc import Iterator

DEFINING = ("custom_op", "triton_op", "define")
"""Functions that define an operator; other registrations only add to it."""


def registration(script: str, operator: str) -> int | None:
    """The number of the line that defines ``operator`` (``lib::scale``), or else the first registration for it.

    Finds ``custom_op("lib::scale", ...)``, ``define("lib::scale", ...)`` and
    ``library.define("scale(Tensor x) -> Tensor")``; None if there is no such call.
    """
    try:
        tree = ast.parse(script)
    except (SyntaxError, ValueError):
        return None
    calls = sorted(_calls(tree, operator), key=lambda found: (found[0] not in DEFINING, found[1]))
    if not calls:
        return None
    return calls[0][1]


def _calls(tree: ast.Module, operator: str) -> Iterator[tuple[str, int]]:
    """Name and line of every call that names the operator."""
    short = operator.partition("::")[2]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        texts = [a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        texts += [
            k.value.value for k in node.keywords if isinstance(k.value, ast.Constant) and isinstance(k.value.value, str)
        ]
        named = {text.partition("(")[0].strip().partition(".")[0] for text in texts}
        if operator in named or (function in ("define", "impl") and short in named):
            yield function, node.lineno
