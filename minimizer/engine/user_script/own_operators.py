"""Custom operators: finds those that a graph calls and their registrations, and removes the setup of uncalled ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from minimizer.engine.user_script.slice import BUILTIN_NAMESPACES, names_bound, names_used

LIBRARY_CALLS = ("define", "impl")
"""Functions of ``torch.library``, also methods of a ``Library``, where they name an operator without its namespace."""
DEFINING = ("custom_op", "triton_op", "define")
"""Functions that define an operator; other registrations only add to it."""
REGISTERING = re.compile(r"custom_op|triton_op|define|(py_)?impl(_abstract)?|register_\w+")


def own_operators(targets: Iterable[str]) -> list[str]:
    """The custom operators among node targets (``torch.ops.lib.scale.default``), as ``lib.scale``, in order."""
    paths = [target.split(".") for target in targets]
    own = [
        path for path in paths if path[:2] == ["torch", "ops"] and len(path) > 3 and path[2] not in BUILTIN_NAMESPACES
    ]
    return list(dict.fromkeys(".".join(path[2:4]) for path in own))


def without_operators(setup: Sequence[str], used: Collection[str], elsewhere: Collection[str]) -> tuple[str, ...]:
    """The statements without registrations of operators that are not ``used``, and without what only these needed.

    Args:
        setup: statements as source text.
        used: operators that are called, as ``lib.scale``.
        elsewhere: names that are read outside of the setup.
    """
    trees = [ast.parse(text) for text in setup]
    named = [set(_operators(tree)) for tree in trees]
    wanted = {name.partition(".")[2] for name in used}
    gone = {index for index, names in enumerate(named) if names and not names & wanted}
    if not gone:
        return tuple(setup)
    bound, read = [_bound(tree) for tree in trees], [names_used(text) for text in setup]
    while True:
        left = [index for index in range(len(setup)) if index not in gone]
        lost = {name for index in gone for name in bound[index]} - {name for index in left for name in bound[index]}
        needless = {name for index in gone for name in read[index]}
        needless -= {name for index in left for name in read[index]} | set(elsewhere)
        follows = {index for index in left if read[index] & lost or (bound[index] and bound[index] <= needless)}
        if not follows:
            return tuple(setup[index] for index in left)
        gone |= follows


def _bound(tree: ast.Module) -> set[str]:
    return {name for statement in tree.body for name in names_bound(statement)}


def _operators(tree: ast.AST) -> Iterator[str]:
    """The operators that a statement registers, without their namespace."""
    for function, _, operator in _naming(tree):
        space, separator, name = operator.rpartition("::")
        is_named = space.isidentifier() if separator else function in LIBRARY_CALLS
        if REGISTERING.fullmatch(function) and is_named and name.isidentifier():
            yield name


def registration(script: str, operator: str) -> int | None:
    """The number of the line that defines ``operator`` (``lib::scale``), or else the first registration for it.

    Finds ``custom_op("lib::scale", ...)``, ``define("lib::scale", ...)`` and
    ``library.define("scale(Tensor x) -> Tensor")``; None if there is no such call.
    """
    try:
        calls = list(_naming(ast.parse(script)))
    except (SyntaxError, ValueError):
        return None
    short = operator.partition("::")[2]
    found = [
        (function not in DEFINING, line)
        for function, line, named in calls
        if named == operator or (function in LIBRARY_CALLS and named == short)
    ]
    return min(found)[1] if found else None


def _naming(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """The function, line and name for every call that may name an operator, first or by keyword.

    Without overload and schema.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for argument in (*node.args[:1], *(keyword.value for keyword in node.keywords)):
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield function, node.lineno, argument.value.partition("(")[0].strip().partition(".")[0]
