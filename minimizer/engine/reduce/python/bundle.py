"""A script as one text: the modules beside it inlined, its arguments written into it, and where the user has each of its lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import decode_source
from pathlib import Path

from minimizer.engine.reduce.python.arguments import ADDED, place_of_arguments, with_arguments
from minimizer.engine.reduce.python.inline import is_of_the_future
from minimizer.engine.user_script.statements import lines_of, script_lines
from minimizer.engine.user_script.unfolded import is_main_block
from minimizer.report.culprit import Line

MAX_MODULE = 1 << 20
"""Most bytes of a neighbouring module that is inlined into the script."""


@dataclass(frozen=True)
class Bundle:
    """A script as one text. ``lines``: for each of its lines the user's file, number and text; without those that are ours."""

    text: str
    lines: Mapping[int, Line]
    arguments: str = ""
    """The statements that were added to set ``sys.argv``; empty where there are none."""

    def rewritten(self) -> Bundle:
        """The same in the layout in which candidates are run (`Source.text`): that has no comments."""
        body = ast.parse(self.text).body
        text = ast.unparse(ast.Module(body, [])) + "\n"
        pairs = (pair for old, new in zip(body, ast.parse(text).body, strict=False) for pair in _numbers(old, new))
        found: dict[int, Line] = {}
        for number, before in pairs:
            if before in self.lines:
                found.setdefault(number, self.lines[before])
        return Bundle(text, found, self.arguments)

    def line(self, file: str, number: int, code: str, script: str) -> Line | None:
        """A line in a run of the text under the name ``script``, as the user has it; None for one that is ours."""
        return self.lines.get(number) if file == script else (file, number, code)

    def in_users_lines(self, stack: str, script: str) -> str:
        """A stack of a run of the text under the name ``script``, with the user's files and lines."""

        def users(match: re.Match[str]) -> str:
            file, number, _ = self.lines.get(int(match[1]), (f"<made of {script}>", int(match[1]), ""))
            return f'File "{file}", line {number}'

        return re.sub(rf'File "{re.escape(script)}", line (\d{{1,9}})(?=,| in )', users, stack)


def bundle(script: Path, args: Sequence[str] = ()) -> Bundle:
    """A script with neighbouring modules inlined where it imports names from them, and with its arguments.

    ``from model import Net`` becomes the text of ``model.py`` without its ``__main__`` block. Modules that are imported
    as a whole stay.

    Raises:
        SyntaxError: the script or such a module is not Python.
        UnicodeDecodeError: the script is no text.
    """
    whole = _with_modules(script)
    if not args:
        return whole
    above = place_of_arguments(whole.text)
    lines = {number + ADDED if number > above else number: line for number, line in whole.lines.items()}
    text = with_arguments(whole.text, args)
    return Bundle(text, lines, "".join(lines_of(text)[above : above + ADDED]))


def _with_modules(script: Path) -> Bundle:
    text = script.read_text("utf-8-sig")
    texts = {script: script_lines(text)}
    body = list(_inlined(ast.parse(text).body, script, script.parent, texts))
    if len(texts) == 1:
        lines = {number: (script.name, number, line.strip()) for number, line in enumerate(texts[script], 1)}
        return Bundle(text, lines)
    body.sort(key=lambda pair: not is_of_the_future(pair[1]))  # these must come first
    text = ast.unparse(ast.Module([statement for _, statement in body], [])) + "\n"
    found: dict[int, Line] = {}
    for (file, old), new in zip(body, ast.parse(text).body, strict=False):
        name = file.relative_to(script.parent).as_posix() if file.is_relative_to(script.parent) else file.name
        for number, line in _numbers(old, new):
            found.setdefault(number, (name, line, texts[file][line - 1].strip()))
    return Bundle(text, found)


def _inlined(
    statements: list[ast.stmt], own: Path, root: Path, texts: dict[Path, list[str]]
) -> Iterator[tuple[Path, ast.stmt]]:
    """Each statement with its file, with modules' statements in the place of imports.

    ``own``: the file of these statements. ``root``: the script's folder. ``texts``: receives the lines of each file.
    """
    for statement in statements:
        file = _module_file(statement, root, own.parent)
        if file is None:
            yield own, statement
        elif file not in texts:
            content = file.read_bytes()
            body = [s for s in ast.parse(content).body if not is_main_block(s)]
            texts[file] = script_lines(decode_source(content))
            yield from _inlined(body, file, root, texts)


def _numbers(old: ast.stmt, new: ast.stmt) -> Iterator[tuple[int, int]]:
    """(line of a statement as it is written now, line of the same part before), the outer parts first."""
    if ast.dump(old) != ast.dump(new):
        return
    for now, before in zip(ast.walk(new), ast.walk(old), strict=True):
        if isinstance(now, ast.stmt | ast.expr | ast.ExceptHandler):
            yield now.lineno, before.lineno  # type: ignore[attr-defined]


def _module_file(statement: ast.stmt, root: Path, own: Path) -> Path | None:
    """The neighbouring file that ``from name import a, b`` reads; None for other statements and other modules."""
    if not isinstance(statement, ast.ImportFrom) or not statement.module or any(a.asname for a in statement.names):
        return None
    folder = own.joinpath(*[".."] * (statement.level - 1)).resolve() if statement.level else root
    base = folder.joinpath(*statement.module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_file() and file.stat().st_size <= MAX_MODULE:
            return file
    return None
