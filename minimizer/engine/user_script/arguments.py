"""Writes a script's command-line arguments into its text, as its first statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from minimizer.engine.user_script.statements import first_line, is_of_the_future, lines_of

ADDED = 3
"""Number of added lines."""


def with_arguments(text: str, args: Sequence[str]) -> str:
    """The script with ``sys.argv`` set to ``args`` by a statement; unchanged if there are none.

    Raises:
        SyntaxError: it is not Python.
    """
    if not args:
        return text
    lines, above = lines_of(text), place_of_arguments(text)
    return "".join([*lines[:above], f"import sys\n\nsys.argv[1:] = {list(args)!r}\n", *lines[above:]])


def place_of_arguments(text: str) -> int:
    """The number of the line after which the arguments are set: after the docstring and imports from ``__future__``.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(text)
    first = 1 if ast.get_docstring(tree) is not None else 0
    first += sum(map(is_of_the_future, tree.body))
    return first_line(tree.body[first]) - 1 if first < len(tree.body) else len(lines_of(text))
