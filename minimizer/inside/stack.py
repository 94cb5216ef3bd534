"""The full stack of an exception as text: from the script's first line to the raising frame, without our own frames.

Compilers wrap exceptions and drop frames. So three parts are joined: the frames still running, those of the exception
that reached us, and those of its root cause.
"""

from __future__ import annotations

import traceback
from types import CodeType, FrameType
from typing import Any

from .places import Line, is_ours, place_of, sources, without_folders

MOST_FRAMES = 400
"""Most callers of the first frame to show."""
MOST_TEXT = 50_000
"""Most characters of the stack's text; a longer one is cut in the middle."""
MOST_LINES = 24
"""Most lines of a message to show; of longer ones the beginning and the end."""

Entry = tuple[FrameType, int]


def stack_of(error: BaseException, root: BaseException, message: str) -> dict[str, Any]:
    """The joined stack of an exception and its root cause as traceback text (``stack``), and its lines of interest (`sources`).

    ``message`` is the root cause's message.
    """
    outer, inner = (list(traceback.walk_tb(each.__traceback__)) for each in (error, root))
    # A script may call sys.exit elsewhere than where the exception that it handles was raised.
    entries = inner if isinstance(error, SystemExit) and inner else _joined(outer, inner)
    frames = [
        (f.f_code, number, _code(f, number))
        for f, number in _above(entries) + entries
        if not is_ours(f.f_code.co_filename)
    ]
    shown = [line for code, number, text in frames for line in _lines(code, number, text)]
    said = [] if root is error else [f"It reached the script as {_first_line(error, root)}"]
    text = "\n".join(["Traceback (most recent call last):", *shown, *_message(message), *said])
    text = text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT // 4]}\n...\n{text[-MOST_TEXT * 3 // 4 :]}"
    run = [(code.co_filename, number, line) for code, number, line in frames]
    return {"stack": text, **sources([*run, *_traced(error, root)])}


def _traced(*errors: BaseException) -> list[Line]:
    """The lines that Dynamo was translating when it raised one of these: no frame ran them."""
    for error in errors:
        found = getattr(error, "real_stack", None)
        if isinstance(found, traceback.StackSummary):
            return [(frame.filename, frame.lineno or 0, (frame.line or "").strip()[:300]) for frame in found]
    return []


def _joined(outer: list[Entry], inner: list[Entry]) -> list[Entry]:
    """The frames down to the raise of the inner exception; the two tracebacks share the frame that caught it."""
    if not inner:
        return outer
    caught_in = inner[0][0]
    meet = next((place for place, (frame, _) in enumerate(outer) if frame is caught_in), None)
    if meet is not None:
        return [*outer[:meet], *inner]
    frames = {id(frame) for frame, _ in inner}
    return [*(entry for entry in outer if id(entry[0]) not in frames), *inner]


def _above(entries: list[Entry]) -> list[Entry]:
    """The callers of the first frame, outermost first."""
    frame: FrameType | None = entries[0][0].f_back if entries else None
    found: list[Entry] = []
    while frame is not None and len(found) < MOST_FRAMES:
        found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return found[::-1]


def _code(frame: FrameType, number: int) -> str:
    (summary,) = traceback.StackSummary.extract(iter([(frame, number)]))
    return (summary.line or "").strip()[:300]


def _lines(code: CodeType, number: int, text: str) -> list[str]:
    shown = f'  File "{place_of(code.co_filename).name}", line {number}, in {code.co_name}'
    return [shown, f"    {text}"] if text else [shown]


def _message(text: str) -> list[str]:
    lines = [line[:1000] for line in without_folders(text).splitlines()]
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[: MOST_LINES - 4], f"... {len(lines) - MOST_LINES} lines ...", *lines[-4:]]


def _first_line(error: BaseException, root: BaseException) -> str:
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    first = next(iter(str(error).splitlines()), "")
    return kind if first.endswith(str(root)) else f"{kind}: {without_folders(first)[:300]}"
