"""The backend that a script itself compiles with, as written in its text."""

from __future__ import annotations

import ast

from minimizer.engine.diagnose.ladder import LADDERS
from minimizer.engine.reduce.python.entries import ENTRY, OPTIMIZE, is_method
from minimizer.engine.user_script.syntax import full_name, imported

REFERENCE = "'eager'"
"""The backend that scripts use as a reference; it counts as the backend only if it is the only one."""


def backend_of(text: str) -> str | None:
    """The backend that a script compiles with, as source text; None if it names none, or several but `REFERENCE`."""
    tree = ast.parse(text)
    names = imported(tree)
    calls = {call.func: call for call in ast.walk(tree) if isinstance(call, ast.Call)}
    named: set[str | None] = set()
    for node in ast.walk(tree):
        call = calls.get(node) if isinstance(node, ast.expr) else None
        entry = full_name(node, names)
        if entry in (ENTRY, *OPTIMIZE):
            named |= _backends(call, tree, comes_first=entry in OPTIMIZE)
        elif call is not None and is_method(call.func, names):
            named |= _backends(call, tree)
    compared = named - {REFERENCE} or named
    return next(iter(compared)) if len(compared) == 1 else None


def _backends(call: ast.Call | None, tree: ast.Module, *, comes_first: bool = False) -> set[str | None]:
    """The backends passed to an entry to the compiler, as source text; None for the default.

    For a loop variable or an argument: every backend that the script spells out.
    """
    words = [word.value for word in call.keywords if word.arg == "backend"] if call is not None else []
    if call is not None and comes_first:
        words += call.args[:1]
    if not words:
        return {None}
    named = ast.unparse(words[0])
    targets = [node.target for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
    varies = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | set(map(ast.unparse, targets))
    spelled = {repr(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in LADDERS}
    return {*spelled} if named in varies and spelled - {REFERENCE} else {named}
