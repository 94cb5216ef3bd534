"""Parses the exception that ended a Python process from its standard error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.trouble import GPU_FULL, OUT_OF_MEMORY

RANK = re.compile(r"^\[rank\d+\]: ?", re.MULTILINE)
"""The prefix that torch gives to the lines of a rank."""
GROUP = "Exception Group Traceback (most recent call last):"
MARGIN = re.compile(r"^ +(?:\| |\|$|\+-[-+ \d.]*$\n?)", re.MULTILINE)
"""Matches the margin of the exceptions of a group, and the separators between them."""
BEGIN = "Traceback (most recent call last):"
FRAME = re.compile(r'^  File "(.+)", line (\d{1,9}), in (.+)$')
RAISED = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
NEXT = ("During handling of the above exception", "The above exception was the direct cause")
MOST_FRAMES = 6
MOST_TEXT = 8000
DISPATCH = "torch/_dynamo/eval_frame.py"
"""The file of a frame that is on the stack of every compiled function."""


@dataclass(frozen=True)
class Traceback:
    """An uncaught exception. ``in_compiled``: raised inside a function that the script compiles."""

    error: ExceptionInfo
    text: str
    in_compiled: bool


def last_traceback(output: str) -> Traceback | None:
    """The last traceback in a process's output; for an exception group, of its last exception; None if there is none."""
    output = RANK.sub("", output)
    lines = (MARGIN.sub("", output) if GROUP in output else output).splitlines()
    begin = next((number for number in reversed(range(len(lines))) if lines[number].strip() == BEGIN), None)
    if begin is None:
        return None
    end = next((n for n in range(begin + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    raised = RAISED.match(lines[end]) if end < len(lines) else None
    if raised is None:
        return None
    said = [raised[2] or "", *_until_next(lines[end + 1 :])]
    message = "\n".join(said).strip()[:MOST_TEXT]
    frames = _frames(lines[begin + 1 : end])
    error = ExceptionInfo(
        type=raised[1],
        message=message,
        root_type=raised[1],
        root_message=message,
        frames=[(_short(file), function, code) for file, _, function, code in frames[-MOST_FRAMES:]],
        source=next(((file, line, code) for file, line, _, code in reversed(frames) if file[0] not in "/<"), None),
        device=OUT_OF_MEMORY if GPU_FULL.search(f"{raised[1]}: {message}") else "",
    )
    text = "\n".join([*lines[begin:end], raised[0], *said[1:]]).strip()[-MOST_TEXT:]
    return Traceback(error, text, any(file.endswith(DISPATCH) for file, *_ in frames))


def _until_next(lines: list[str]) -> list[str]:
    stop = next((n for n, line in enumerate(lines) if line.startswith(NEXT)), len(lines))
    return lines[:stop]


def _frames(lines: list[str]) -> list[tuple[str, int, str, str]]:
    """File, line, function and code of each frame, innermost last; files of the project have a path relative to it."""
    found = []
    for number, line in enumerate(lines):
        if frame := FRAME.match(line):
            code = lines[number + 1].strip() if number + 1 < len(lines) and lines[number + 1].startswith("    ") else ""
            found.append((frame[1], int(frame[2]), frame[3], code[:200]))
    return found


def _short(path: str) -> str:
    """A file's name in the child's form (``inside/failures.py``): its path below site-packages, or its name."""
    _, marker, below = path.rpartition("site-packages/")
    return below if marker else Path(path).name
