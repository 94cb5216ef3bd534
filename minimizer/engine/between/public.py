"""Rewrites a script for the repro of a fault between graphs: with the simplest backend that shows it at every entry."""

from __future__ import annotations

import ast
from collections.abc import Callable

from minimizer.engine.reduce.python.entries import ENTRY, is_method, with_word
from minimizer.engine.reduce.python.shorter import INDENT, WIDTH
from minimizer.engine.user_script.syntax import DEFINITIONS, full_name, imported

CHOICES = ("backend", "mode", "options")
NAMES = ("f", "compiled")
"""Names for the result of an entry that the script leaves unnamed."""


def with_backend(text: str, backend: str) -> str:
    """The script with this backend in place of its own backends, modes and options."""
    return _with_entries(text, lambda entry: _with_backend(entry, backend))


def with_fullgraph(text: str) -> str:
    """The script with ``fullgraph=True`` at every entry, which makes a graph break an error."""
    return _with_entries(text, lambda entry: with_word(entry, "fullgraph", True))


def _with_entries(text: str, edit: Callable[[ast.Call], ast.Call]) -> str:
    """The script with each entry to the compiler edited; a bare decorator is made a call first."""
    tree = ast.parse(text)
    names = imported(tree)

    class Entries(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.Call:
            self.generic_visit(node)
            return edit(node) if full_name(node.func, names) == ENTRY or is_method(node.func, names) else node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
            self.generic_visit(node)
            node.decorator_list = [
                edit(ast.Call(func=one, args=[], keywords=[])) if full_name(one, names) == ENTRY else one
                for one in node.decorator_list
            ]
            return node

    return ast.unparse(ast.fix_missing_locations(Entries().visit(tree))) + "\n"


def named_entries(text: str) -> str:
    """The script with ``f = torch.compile(...)`` before a loop or long line that calls ``torch.compile(...)(x)``."""
    tree = ast.parse(text)
    names = imported(tree)
    body: list[ast.stmt] = []
    taken = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for statement in tree.body:
        called = [n.func for n in ast.walk(statement) if isinstance(n, ast.Call) and isinstance(n.func, ast.Call)]
        entry = next((call for call in called if full_name(call.func, names) == ENTRY), None)
        is_simple = not isinstance(statement, ast.For | ast.While)
        fits = max(map(len, ast.unparse(statement).splitlines())) + INDENT <= WIDTH
        name = next((name for name in NAMES if name not in taken), None)
        if entry is None or (is_simple and fits) or name is None or isinstance(statement, DEFINITIONS):
            body.append(statement)
            continue
        taken.add(name)
        body.append(ast.Assign(targets=[ast.Name(name, ast.Store())], value=entry))
        body.append(_with_name_for(statement, entry, name))
    tree.body = body
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _with_name_for(statement: ast.stmt, entry: ast.Call, name: str) -> ast.stmt:
    class Name(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.expr:
            self.generic_visit(node)
            return ast.Name(name, ast.Load()) if node is entry else node

    named: ast.stmt = Name().visit(statement)
    return named


def _with_backend(call: ast.Call, backend: str) -> ast.Call:
    kept = [word for word in call.keywords if word.arg not in CHOICES]
    call.keywords = [*kept, ast.keyword(arg="backend", value=ast.Constant(value=backend))]
    return call
