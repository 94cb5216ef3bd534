"""A script as one text: with the modules next to it inlined, its arguments written into it, and a map to the user's
lines.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.engine.user_script.arguments import ADDED, place_of_arguments, with_arguments
from minimizer.engine.user_script.beside import Folder
from minimizer.engine.user_script.linking import Linked, link
from minimizer.engine.user_script.statements import is_of_the_future, lines_of
from minimizer.report.culprit import Line


@dataclass(frozen=True)
class Bundle:
    """A script as one text. ``lines``: the user's file, number and text for each of its lines, except added ones."""

    text: str
    lines: Mapping[int, Line]
    arguments: str = ""
    """The statements added to set ``sys.argv``; empty without any."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names in the text of the globals of linked modules and of the script (`Linked.names`)."""

    def rewritten(self) -> Bundle:
        """The same in the layout of candidates (`Source.text`), which has no comments."""
        body = ast.parse(self.text).body
        text = ast.unparse(ast.Module(body, [])) + "\n"
        pairs = (pair for old, new in zip(body, ast.parse(text).body, strict=False) for pair in _numbers(old, new))
        found: dict[int, Line] = {}
        for number, before in pairs:
            if before in self.lines:
                found.setdefault(number, self.lines[before])
        return Bundle(text, found, self.arguments, self.names)

    def line(self, file: str, number: int, code: str, script: str) -> Line | None:
        """The user's line for one in a run of the text under the name ``script``; None for an added line."""
        return self.lines.get(number) if file == script else (file, number, code)

    def in_users_lines(self, stack: str, script: str) -> str:
        """A stack of a run of the text under the name ``script``, with the user's files and lines."""

        def users(match: re.Match[str]) -> str:
            file, number, _ = self.lines.get(int(match[1]), (f"<made of {script}>", int(match[1]), ""))
            return f'File "{file}", line {number}'

        return re.sub(rf'File "{re.escape(script)}", line (\d{{1,9}})(?=,| in )', users, stack)


def bundle(script: Path, args: Sequence[str] = ()) -> Bundle:
    """A script with the modules next to it linked into it (`linking`), and with its arguments.

    Raises:
        SyntaxError: the script is not Python.
        UnicodeDecodeError: the script is no text.
    """
    whole = _with_modules(script)
    if not args:
        return whole
    above = place_of_arguments(whole.text)
    lines = {number + ADDED if number > above else number: line for number, line in whole.lines.items()}
    text = with_arguments(whole.text, args)
    return Bundle(text, lines, "".join(lines_of(text)[above : above + ADDED]), whole.names)


def _with_modules(script: Path) -> Bundle:
    folder = Folder(script)
    try:
        linked = link(folder)
    except RecursionError:
        linked = Linked([], {})
    if all(module is folder.script for module, _ in linked.statements):
        lines = enumerate(folder.script.lines, 1)
        return Bundle(folder.script.text, {number: (script.name, number, line.strip()) for number, line in lines})
    body = sorted(linked.statements, key=lambda pair: not is_of_the_future(pair[1]))  # these must come first
    text = ast.unparse(ast.Module([statement for _, statement in body], [])) + "\n"
    found: dict[int, Line] = {}
    for (module, old), new in zip(body, ast.parse(text).body, strict=False):
        name = module.file.relative_to(script.parent).as_posix()
        for number, line in _numbers(old, new):
            found.setdefault(number, (name, line, module.lines[line - 1].strip()))
    return Bundle(text, found, names=linked.names)


def _numbers(old: ast.stmt, new: ast.stmt) -> Iterator[tuple[int, int]]:
    """(line of a statement in the new text, line of the same part in the old one), the outer parts first."""
    if ast.dump(old) != ast.dump(new):
        return
    for now, before in zip(ast.walk(new), ast.walk(old), strict=True):
        if isinstance(now, ast.stmt | ast.expr | ast.ExceptHandler):
            yield now.lineno, before.lineno  # type: ignore[attr-defined]
