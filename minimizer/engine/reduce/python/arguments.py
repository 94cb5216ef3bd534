"""Writes a script's command-line arguments into its text, as its first statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from minimizer.engine.reduce.python.inline import is_of_the_future
from minimizer.engine.user_script.statements import first_line, lines_of


def with_arguments(text: str, args: Sequence[str]) -> str:
    """The script with ``sys.argv`` set to ``args`` by a statement; unchanged if there are none.

    Raises:
        SyntaxError: it is not Python.
    """
    if not args:
        return text
    tree = ast.parse(text)
    first = 1 if ast.get_docstring(tree) is not None else 0
    first += sum(map(is_of_the_future, tree.body))
    lines = lines_of(text)
    line = first_line(tree.body[first]) - 1 if first < len(tree.body) else len(lines)
    return "".join([*lines[:line], f"import sys\n\nsys.argv[1:] = {list(args)!r}\n", *lines[line:]])
