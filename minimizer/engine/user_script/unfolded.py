"""Flattens a script into its statements in order of execution, out of blocks that only group them.

Such blocks are ``if __name__ == "__main__":``, a ``main()`` without parameters, ``with config.patch(...):`` and
``@config.patch(...)``. Settings in them apply to the code compiled in them, and must be found like those at the top
level.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from minimizer.engine.user_script.statements import script_lines, text_of


@dataclass(frozen=True)
class Opened:
    """A statement, and its text at the top level."""

    statement: ast.stmt
    text: str


def opened(script: str) -> list[Opened]:
    """The statements of a script, in the order in which they run.

    Raises:
        SyntaxError: it is not Python.
    """
    body = ast.parse(script).body
    functions = {s.name: s for s in body if isinstance(s, ast.FunctionDef) and _takes_nothing(s)}
    return list(_opened(body, functions, script_lines(script)))


def is_main_block(statement: ast.stmt) -> bool:
    """Whether it is ``if __name__ == "__main__":``."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def _opened(body: Sequence[ast.stmt], functions: dict[str, ast.FunctionDef], lines: list[str]) -> Iterator[Opened]:
    """The statements of a body, flattened; ``functions``: those not called yet, flattened at their first call."""
    blocks = [iter(body)]
    while blocks:
        statement = next(blocks[-1], None)
        if statement is None:
            blocks.pop()
        elif isinstance(statement, ast.Return):  # the end of its block; at the top of a script only its value is valid
            value = [ast.copy_location(ast.Expr(statement.value), statement)] if statement.value else []
            blocks[-1] = iter(value)
        elif isinstance(statement, ast.With) and (patches := _patches(i.context_expr for i in statement.items)):
            yield from _as_settings(patches)
            blocks.append(iter(statement.body))
        elif isinstance(statement, ast.If) and is_main_block(statement):
            blocks.append(iter(statement.body))
        elif (function := _called(statement, functions)) is not None:
            del functions[function.name]
            yield from _as_settings(_patches(function.decorator_list))
            blocks.append(iter(function.body))
        else:
            yield Opened(statement, text_of(statement, lines))


def _takes_nothing(function: ast.FunctionDef) -> bool:
    arguments = function.args
    return not (arguments.args or arguments.posonlyargs or arguments.kwonlyargs or arguments.vararg or arguments.kwarg)


def _called(statement: ast.stmt, functions: dict[str, ast.FunctionDef]) -> ast.FunctionDef | None:
    call = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    is_plain = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return functions.get(call.func.id) if is_plain else None  # type: ignore[union-attr]


def _patches(expressions: Iterable[ast.expr]) -> list[ast.Call]:
    """The calls of ``patch`` among some expressions."""
    calls = [e for e in expressions if isinstance(e, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "patch"]


def _as_settings(patches: Sequence[ast.Call]) -> Iterator[Opened]:
    """``config.patch(name=value)``, or with a dict, as ``config.name = value``."""
    for call in patches:
        assert isinstance(call.func, ast.Attribute)
        config = ast.unparse(call.func.value)
        values = [(word.arg, word.value) for word in call.keywords if word.arg is not None]
        for table in (argument for argument in call.args if isinstance(argument, ast.Dict)):
            pairs = zip(table.keys, table.values, strict=True)
            values += [(str(key.value), value) for key, value in pairs if isinstance(key, ast.Constant)]
        for name, value in values:
            text = f"{config}.{name} = {ast.unparse(value)}"
            yield Opened(ast.parse(text).body[0], text)
