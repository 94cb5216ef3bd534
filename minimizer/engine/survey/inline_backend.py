"""Names a backend that the script writes inline in its ``torch.compile`` call, such as a lambda, as a program needs it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.reduce.python.entries import ENTRY, OPTIMIZE, is_method
from minimizer.engine.user_script.slice import PREDEFINED, names_bound, names_used
from minimizer.engine.user_script.syntax import FUNCTIONS, full_name, imported, names_stored
from minimizer.engine.user_script.unfolded import opened

NAMES = ("own_backend", *(f"own_backend_{number}" for number in range(2, 100)))
"""Candidate names for an inline backend."""
IMPORTS = (ast.Import, ast.ImportFrom)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class InlineBackend:
    """An inline backend with a name.

    ``name``: the name. ``binding``: the statement that binds it, unless the script does. ``reads``: the names it needs.
    """

    name: str
    binding: str
    reads: Sequence[str]


@dataclass(frozen=True)
class _Given:
    """A backend as passed to the compiler, and the names there that are not the script's globals."""

    expression: ast.expr
    local: frozenset[str]

    @property
    def text(self) -> str:
        return ast.unparse(self.expression)


def inline_backend(script: str) -> InlineBackend | None:
    """The script's only backend, if no global refers to it; None for several, or if it reads a name without a unique
    top-level binding.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(script)
    statements = [one.statement for one in opened(script)]
    imports = {name for one in statements if isinstance(one, IMPORTS) for name in names_bound(one)}
    bound = Counter(
        [*imports, *(name for one in statements if not isinstance(one, IMPORTS) for name in names_bound(one))]
    )
    named = {name for statement in tree.body for name in names_bound(statement)}
    given = _given(tree, {_place(one) for one in statements})
    if given is None:
        return None
    nameless = [one for one in given if one.text not in named or one.text in one.local]
    texts = {one.text for one in nameless}
    if len(texts) != 1:
        return None
    (text,) = texts
    reads = sorted(names_used(text) - PREDEFINED)
    if any(bound[name] != 1 or any(name in one.local for one in nameless) for name in reads):
        return None
    if text.isidentifier():
        return InlineBackend(text, "", reads)
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    taken |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} | bound.keys()
    name = next((name for name in NAMES if name not in taken), "")
    return InlineBackend(name, f"{name} = {text}", reads) if name else None


def _given(tree: ast.Module, opened_at: set[tuple[int, int]]) -> list[_Given] | None:
    """The backends passed to a script's entries to the compiler, except literals; None if an entry may get others."""
    names = imported(tree)
    calls = {call.func: call for call in ast.walk(tree) if isinstance(call, ast.Call)}
    plain = {one for node in ast.walk(tree) for one in getattr(node, "decorator_list", [])}
    found: list[_Given] = []
    for node, local in _in_scopes(tree, frozenset(), opened_at):
        call = calls.get(node) if isinstance(node, ast.expr) else None
        entry = full_name(node, names)
        if entry not in (ENTRY, *OPTIMIZE) and not (call is not None and is_method(call.func, names)):
            continue
        if call is None:
            if node not in plain:  # such as partial(torch.compile, backend=...)
                return None
            continue
        if any(word.arg is None for word in call.keywords):
            return None
        words = [word.value for word in call.keywords if word.arg == "backend"]
        words += call.args[:1] if entry in OPTIMIZE else []
        found += [_Given(word, local) for word in words if not isinstance(word, ast.Constant)]
    return found


def _in_scopes(
    node: ast.AST, local: frozenset[str], opened_at: set[tuple[int, int]]
) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """The nodes of a tree, each with the names bound by the functions around it.

    One that `opened` flattens binds globals.
    """
    yield node, local
    outside = getattr(node, "decorator_list", [])
    is_flat = isinstance(node, ast.FunctionDef) and any(_place(one) in opened_at for one in node.body)
    inner = local | _bound_inside(node) if isinstance(node, SCOPES) and not is_flat else local
    for child in ast.iter_child_nodes(node):
        yield from _in_scopes(child, local if child in outside else inner, opened_at)


def _bound_inside(scope: ast.AST) -> set[str]:
    """The arguments of a function, and the names that its body, or that of another scope, binds."""
    inside = [one for one in ast.walk(scope) if one is not scope]
    found = {one.arg for one in inside if isinstance(one, ast.arg)}
    found |= set(names_stored(inside))
    return found.union(*(names_bound(one) for one in inside if isinstance(one, ast.stmt)))


def _place(statement: ast.stmt) -> tuple[int, int]:
    return statement.lineno, statement.col_offset
