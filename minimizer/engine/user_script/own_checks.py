"""Removes the script's own checks, so that it continues where one would fail; compared expressions are still computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from minimizer.engine.user_script.statements import lines_of
from minimizer.engine.user_script.syntax import full_name, imported

EXITS = ("sys.exit", "exit", "quit", "os._exit", "pytest.fail")
RAISED = ("AssertionError", "SystemExit")


class _Check(NamedTuple):
    statement: ast.stmt
    compared: tuple[ast.expr, ...] = ()


def without_checks(text: str, raised: str = "") -> str:
    """A script without checks that still computes their operands, with the same line numbers.

    Checks are ``assert``, calls such as ``torch.testing.assert_close`` and ``self.assertEqual``, and an exit or raise
    under an ``if``: an ``AssertionError``, a ``SystemExit``, or the exception called ``raised``. Returns the text
    itself if it has none.
    """
    try:
        tree = ast.parse(text)
        names = imported(tree)
        checks = [*_assertions(tree, names), *_ends(tree, names, {*RAISED, raised})]
        lines = [line.encode() for line in lines_of(text)]  # columns count bytes
        for check in sorted(
            checks, key=lambda check: (check.statement.lineno, check.statement.col_offset), reverse=True
        ):
            _replace(lines, check)
        changed = b"".join(lines).decode()
        ast.parse(changed)
    except (SyntaxError, ValueError):
        return text
    return changed


def _assertions(tree: ast.Module, names: Mapping[str, str]) -> Iterator[_Check]:
    for node in ast.walk(tree):
        match node:
            case ast.Assert(test=test):
                yield _Check(node, (test,))
            case ast.Expr(value=ast.Call(func=called, args=args)):
                if full_name(called, names).rpartition(".")[2].startswith("assert"):
                    yield _Check(node, tuple(args))


def _ends(tree: ast.Module, names: Mapping[str, str], raised: set[str]) -> Iterator[_Check]:
    conditional = (s for node in ast.walk(tree) if isinstance(node, ast.If) for s in (*node.body, *node.orelse))
    for statement in conditional:
        match statement:
            case ast.Raise(exc=ast.Call(func=error)) | ast.Raise(exc=ast.expr() as error):
                is_end = full_name(error, names).rpartition(".")[2] in raised
            case ast.Expr(value=ast.Call(func=called)):
                is_end = full_name(called, names) in EXITS
            case _:
                is_end = False
        if is_end:
            yield _Check(statement)


def _replace(lines: list[bytes], check: _Check) -> None:
    """Replace a check by its operands, as a tuple or alone, with the same number of line ends."""
    statement = check.statement
    assert statement.end_lineno is not None and statement.end_col_offset is not None
    first, last = statement.lineno - 1, statement.end_lineno - 1
    compared = ", ".join(ast.unparse(one) for one in check.compared if not isinstance(one, ast.Starred))
    shown = f"({compared})" if compared else "pass"
    rest = lines[last][statement.end_col_offset :]
    lines[first] = lines[first][: statement.col_offset] + shown.encode() + rest
    for line in range(first + 1, last + 1):
        lines[line] = b"\n"
