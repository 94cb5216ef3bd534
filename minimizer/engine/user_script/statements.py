"""Lines and statements of a script's text. Lines are those of Python: a form feed or U+2028 does not end one."""

from __future__ import annotations

import ast
import copy
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

N = TypeVar("N", bound=ast.AST)


def script_lines(script: str) -> list[str]:
    """The lines, without line ends."""
    return re.split("\r\n?|\n", script)


def lines_of(script: str) -> list[str]:
    """The lines, with their line ends."""
    return io.StringIO(script, newline="").readlines()


def span(script: str, node: ast.expr | ast.stmt) -> tuple[int, int]:
    """The offsets in the text where a node begins and ends; the parser counts columns in bytes."""
    lines = lines_of(script)
    assert node.end_lineno is not None
    places = ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
    begin, end = (
        sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode()) for line, column in places
    )
    return begin, end


def text_at(script: str, node: ast.expr | ast.stmt) -> str:
    """The text of a node, as it stands in the script."""
    begin, end = span(script, node)
    return script[begin:end]


def with_text(script: str, node: ast.expr | ast.stmt, text: str) -> str:
    """The script with other text in place of a node."""
    begin, end = span(script, node)
    return script[:begin] + text + script[end:]


def first_line(statement: ast.stmt) -> int:
    """The number of a statement's first line: that of its first decorator, if it has one."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def text_of(statement: ast.stmt, lines: Sequence[str]) -> str:
    """A statement's text from `script_lines`, dedented; unparsed if its lines contain anything else."""
    text = textwrap.dedent("\n".join(lines[first_line(statement) - 1 : statement.end_lineno]))
    with suppress(SyntaxError):  # the first column of a multi-line string or a comment prevents dedenting
        if [ast.dump(found) for found in ast.parse(text).body] == [ast.dump(statement)]:
            return text
    return ast.unparse(statement)


def is_of_the_future(statement: ast.stmt) -> bool:
    """Whether it is an import from ``__future__``, which must come first and changes how definitions are compiled."""
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def assigned(node: ast.AST) -> dict[str, ast.expr]:
    """The values that an assignment binds to single names; empty for other nodes."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return {}
    target, value = node.targets[0], node.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    is_plain = not any(isinstance(side, ast.Starred) for pair in pairs for side in pair)
    return {one.id: given for one, given in pairs if isinstance(one, ast.Name)} if is_plain else {}


def bound_name(node: ast.AST) -> str | None:
    """The one name that an assignment binds to its value; None for other nodes."""
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def with_values(node: N, values: Mapping[str, ast.expr]) -> N:
    """The node, edited in place, with copies of these expressions for names."""
    changed: N = _InPlace(values).visit(node)
    return changed


class _InPlace(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._values[node.id]) if node.id in self._values else node
