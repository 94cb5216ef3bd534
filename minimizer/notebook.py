"""Jupyter notebooks as scripts: their code cells in order, in the percent format that editors know.

IPython-only syntax (magics, shell lines, help) becomes a comment on its line, except that the statement of a timing
magic stays. Nothing of a notebook is run here, and its outputs are ignored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from minimizer.errors import InvalidScript

FORMAT = 4
"""The supported notebook format, in use since 2015."""
MOST_CHARS, MOST_LOOKS = 8 << 10, 100
"""Longest cell in which lines are changed, and how often cells are parsed for that: a stranger's notebook is read by a server."""
MOST_LINE = 500
"""Longest line that is taken for one of IPython's."""
TIMED_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%memit")
"""Cell magics whose remaining cell is Python that runs."""
_TIMED = re.compile(r"^(\s*)%(?:time|timeit|prun|memit)\s+(?:-[nr]\s*\d+\s+|-(?![nr]\s*\d)\S+\s+)*(?=[^-\s])")
_FUTURE = re.compile(r"^(from __future__ import .*)$", re.MULTILINE)
"""Stands in any cell of a notebook; in a script it has to come first."""
_MAGIC = re.compile(r"^(\s*)(%|!|\?)")
_HELP = re.compile(r"^(\s*)[\w.]+\?{1,2}\s*$")
_CAPTURED = re.compile(r"^(\s*)([^\W\d][\w., ]*=)\s*[%!]")
_DISPLAYS = re.compile(r"(?<![\w.])display\(")


def is_notebook(content: bytes) -> bool:
    """Whether a file is a notebook. Its JSON mostly parses as Python, so that it would pass for a script."""
    is_json = content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return is_json and b'"nbformat"' in content and b'"cells"' in content


def taken(content: bytes, name: str) -> tuple[bytes, str]:
    """The content and name of a script; for a notebook those of the script made from its cells, else of the file
    itself.

    Raises:
        InvalidScript: a notebook that cannot be read, or has no code.
    """
    if not is_notebook(content):
        return content, name
    return script_of(content, name).encode(), f"{name.removesuffix('.ipynb')}.py"


def script_of(content: bytes, name: str) -> str:
    """The code cells of a notebook as one script, each below a line ``# %% cell N``.

    Raises:
        InvalidScript: it is no notebook of format 4, or has no code.
    """
    cells = [_text(cell) for cell in _cells(content, name) if cell.get("cell_type") == "code"]
    looks = iter(range(MOST_LOOKS))
    parts = [f"# %% cell {number}\n{_python(text, looks)}\n" for number, text in enumerate(cells, 1) if text.strip()]
    if not parts:
        raise InvalidScript(f"{name} is a Jupyter notebook without code: nothing in it can fail under torch.compile")
    script = "\n".join(parts)
    first = sorted(set(_FUTURE.findall(script)))
    if _DISPLAYS.search(script):
        first.append("display = print  # of IPython")
    return "\n".join([*first, *([""] if first else []), _FUTURE.sub(r"# \1", script)])


def _cells(content: bytes, name: str) -> list[dict[str, Any]]:
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
        cells = notebook["cells"]
        if notebook["nbformat"] != FORMAT or not isinstance(cells, list):
            raise TypeError
        return [cell for cell in cells if isinstance(cell, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidScript(
            f"{name} looks like a Jupyter notebook and cannot be read as one of format {FORMAT}: save it again in Jupyter, or send it as a script"
        ) from None


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    lines = source if isinstance(source, list) else [source]
    text = "".join(line for line in lines if isinstance(line, str))
    return text.encode(errors="replace").decode().replace("\r\n", "\n")  # half a surrogate is no text


def _python(cell: str, looks: Iterator[int]) -> str:
    """The text of a cell, with a comment in the place of each line that keeps it from being Python, as long as there are ``looks``."""
    lines = cell.rstrip().split("\n")  # as Python does: no other mark ends a line
    if lines[0].startswith("%%"):
        if not lines[0].startswith(TIMED_CELLS):
            return "\n".join(f"# {line}" for line in lines)
        lines[0] = f"# {lines[0]}"
    if len(cell) <= MOST_CHARS and any(_plain(line) is not None for line in lines):
        for _ in looks:
            at = _wrong_line(lines)
            if at is None or at >= len(lines) or (changed := _plain(lines[at])) is None:
                break
            lines[at] = changed
    return "\n".join(lines)


def _wrong_line(lines: list[str]) -> int | None:
    """The index of the first line that is not valid Python; None if all are."""
    try:
        ast.parse("\n".join(lines))
    except SyntaxError as error:
        return (error.lineno or len(lines) + 1) - 1
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


def _plain(line: str) -> str | None:
    """A line of IPython's as one of Python; None if it is none of IPython's."""
    if len(line) > MOST_LINE:
        return None
    if _TIMED.match(line):
        return _TIMED.sub(r"\1", line)
    if found := _MAGIC.match(line) or _HELP.match(line):
        return f"{found[1]}pass  # {line.strip()}"
    if found := _CAPTURED.match(line):
        return f"{found[1]}{found[2]} None  # {line.strip()}"
    return None
