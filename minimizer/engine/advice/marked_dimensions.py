"""Marks changing dimensions as dynamic, where the script calls its compiled function: narrower than ``dynamic=True``."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator

from minimizer.engine.user_script.statements import span
from minimizer.engine.user_script.syntax import full_name, imported

DIMENSION = re.compile(r"tensor '(?P<name>\w+)' size mismatch at index (?P<dim>\d+)")
"""Matches a failed guard on the size of an argument; for another tensor the name is a path."""
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
"""Expressions with local names, which cannot be marked from outside."""


def mark_dynamic(text: str, tree: ast.Module, said: str, line: int) -> str | None:
    """``torch._dynamo.mark_dynamic`` before every call of the compiled function whose ``def`` is at a line.

    ``said``: the failed guards. None unless the calls are in statements of their own, with names for the changing
    arguments.
    """
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.lineno == line]
    names = imported(tree)
    changed = list(dict.fromkeys((found["name"], int(found["dim"])) for found in DIMENSION.finditer(said)))
    if not found or not changed or names.get("torch") != "torch":
        return None
    function, is_method = (
        found[0],
        any(found[0] in node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)),
    )
    parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args)][is_method:]
    compiled = {name for name in _compiled(tree, names, "" if is_method else function.name) if name and name[0] != "."}
    if is_method and len(compiled) > 1:
        return None  # ambiguous: several classes may have the method
    places: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, SIMPLE) and (margin := _margin(text, node)) is not None:
            calls = [one for one in _own_calls(node) if full_name(one.func, names) in compiled]
            marks = [mark for call in calls for mark in _marks(call, parameters, changed)]
            places += [(span(text, node)[0], f"{mark}\n{margin}") for mark in reversed(dict.fromkeys(marks))]
    for place, added in sorted(places, key=lambda one: one[0], reverse=True):
        text = text[:place] + added + text[place:]
    return text if places else None


def _compiled(tree: ast.Module, names: dict[str, str], function: str) -> Iterator[str]:
    """The names under which a compiled function is called.

    ``function``: its name, empty for a method, whose module has any name.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[target], value=ast.Call(called, [given, *_])) if full_name(
                called, names
            ) == "torch.compile" and function in ("", full_name(given, names)):
                yield full_name(target, names)
            case ast.FunctionDef(name, decorator_list=decorators) if name == function:
                heads = (one.func if isinstance(one, ast.Call) else one for one in decorators)
                if any(full_name(one, names) == "torch.compile" for one in heads):
                    yield name
            case ast.Expr(ast.Call(ast.Attribute(module, "compile"), [])) if not function:
                yield full_name(module, names)


def _own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls in a statement's own scope."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            if isinstance(child, ast.Call):
                yield child
            yield from _own_calls(child)


def _marks(call: ast.Call, parameters: list[str], changed: Collection[tuple[str, int]]) -> Iterator[str]:
    given = dict(zip(parameters, call.args, strict=False)) | {one.arg or "": one.value for one in call.keywords}
    if any(isinstance(one, ast.Starred) for one in call.args):
        return
    for parameter, dim in changed:
        if isinstance(argument := given.get(parameter), ast.Name):
            yield f"torch._dynamo.mark_dynamic({argument.id}, {dim})"


def _margin(text: str, node: ast.stmt) -> str | None:
    """The indentation of a statement; None if it shares its line with what comes before."""
    begin = span(text, node)[0]
    before = text[:begin].rpartition("\n")[2]
    return before if not before.strip() else None
