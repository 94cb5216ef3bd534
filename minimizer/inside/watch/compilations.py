"""Converts Dynamo's metrics of a run to data: graph breaks and recompiles with the user's lines."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch._dynamo.utils as books

from ..messages import Break, Recompile, StackLine
from ..places import place_of, without_folders
from .captured import CapturedGraph

MOST_BREAKS, MOST_RECOMPILES, MOST_LINES, MOST_TEXT = 100, 500, 30, 2000
"""Most breaks and recompiles to report, lines of a stack, and characters of a reason."""
MOST_DECORATORS = 20
"""Most lines of decorators above a ``def``."""
REFUSED = re.compile(r"recompile.limit|cache.size.limit", re.IGNORECASE)
"""Matches Dynamo's reason for refusing a compilation after too many."""
GIVEN_UP = ("Unsupported", "UserError", "UncapturedHigherOrderOpError")
"""Exceptions with which Dynamo gives up a whole function: a graph break that it cannot resume after, such as in a loop.
"""
RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
"""Matches the name of Dynamo's continuation function after a graph break."""
STACK = re.compile(r"Line: (\d+), Name: (.*?), Filename: (.*)", re.DOTALL)
WRAPPER = "external_utils.py"
"""The file of the function in which Dynamo calls a torch module, such as Sequential."""
MADE = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
"""Matches a frame of the stack at which a guard was created, in the text of a recompile."""
SYMBOLIC = re.compile(r"  # (?P<file>[^#]+?):(?P<line>\d+) in (?P<name>[^ ()]+)(?: \([^()]* in \w+\))?$")
"""Matches the frame at which a guard on a symbolic number was created, at the end of the text of a recompile.

Its file lacks the folders that it has in common with torch, and one character more if that is the root.
"""


def breaks(graphs: Sequence[CapturedGraph]) -> list[Break]:
    """The graph breaks of this process, each place once, including those at which Dynamo gave up a function."""
    found: dict[tuple[str, int, str], Break] = {}
    for reason in books.graph_break_reasons:
        stack = list(reason.user_stack)
        if stack:
            passes = _passes(stack[0].filename, _name(stack[0].name), stack[0].lineno or 0, graphs)
            lines = _lines((one.filename, one.lineno or 0, one.name) for one in stack)
            _add(found, Break(_text(reason.reason), lines, _outermost(lines, stack[0].name), passes=passes))
    for one in books.get_compilation_metrics():
        if one.fail_type in GIVEN_UP and one.fail_user_frame_lineno and not _is_refused(one):
            own = (one.co_filename or "", _def_line(one), one.co_name or "")
            place = (one.fail_user_frame_filename or "", one.fail_user_frame_lineno, one.co_name or "")
            begun = (own[0], one.co_firstlineno or 0, own[2]) if _name(own[2]) != own[2] else own
            lines = _lines([place] if _is_around(place, own) else [begun, (*place[:2], "")])
            _add(found, Break(_text(one.fail_reason), lines, _outermost(lines, one.co_name or ""), is_whole=True))
    return list(found.values())[:MOST_BREAKS]


def recompiles() -> list[Recompile]:
    """The compilations of this process that replaced or joined compiled code whose guards failed, in order."""
    metrics = books.get_compilation_metrics()
    known = {_frame(one): one for one in metrics if one.co_name}
    found = []
    for one in metrics:
        guard = one.recompile_reason
        is_refused = _is_refused(one)
        code = known.get(_frame(one))
        if (guard or is_refused) and code is not None:
            stack = [_entry(text) for text in code.stack_trace or ()]
            found.append(
                Recompile(
                    function="" if WRAPPER in (code.co_filename or "") else _name(code.co_name or ""),
                    file=place_of(code.co_filename or "").name,
                    line=_def_line(code),
                    frame=_frame(one),
                    guard=_text(guard),
                    made_by=_lines(_made_by(guard or "", code.co_filename or "")),
                    stack=_lines([*stack[:-1], (code.co_filename or "", _def_line(code), code.co_name or "")]),
                    seconds=one.entire_frame_compile_time_s or 0.0,
                    refused=is_refused,
                )
            )
    return found[:MOST_RECOMPILES]


def _add(found: dict[tuple[str, int, str], Break], one: Break) -> None:
    """Add a break, merged with a known one of the same place: one in a loop appears twice if called from a function
    given up.
    """
    place = one.stack[-1] if one.stack else StackLine("", 0, "", one.function)
    key = (place.file, place.line, "" if place.line else one.reason)
    if key not in found:
        found[key] = one
    elif one.passes > found[key].passes:
        found[key].passes = one.passes


def _passes(file: str, function: str, line: int, graphs: Sequence[CapturedGraph]) -> int:
    """How often a line was executed: the number of calls of the graph before a break there, or of the one after it."""
    frames: dict[str, list[Any]] = {}
    for one in books.get_compilation_metrics():
        if one.co_filename == file and _name(one.co_name or "") == function and (one.co_firstlineno or 0) <= line:
            frames.setdefault(_frame(one), []).append(one)
    begins = [of[0].co_firstlineno for of in frames.values() if of[0].co_name == function]
    own = {name for name, of in frames.items() if of[0].co_firstlineno >= max(begins, default=0)}
    calls: dict[str, int] = {}
    for graph in graphs:
        if (name := graph.compile_id.partition("/")[0]) in own:
            calls[name] = calls.get(name, 0) + graph.calls
    return max(calls.values(), default=0)


def _is_refused(metrics: Any) -> bool:
    return bool(metrics.fail_type) and bool(REFUSED.search(f"{metrics.fail_type} {metrics.fail_reason}"))


def _frame(metrics: Any) -> str:
    return str(metrics.compile_id or "").partition("/")[0]


def _name(name: str) -> str:
    """The name of the user's function, also for a continuation that Dynamo made of it."""
    found = RESUMED.fullmatch(name)
    return found[1] if found else name


def _outermost(lines: Sequence[StackLine], name: str) -> str:
    """The user's function that is split: the compiled one, by its name, unless that is torch's own around the user's."""
    return lines[0].function if lines and lines[0].function else _name(name)


def _text(reason: Any) -> str:
    return without_folders(str(reason or "").strip())[:MOST_TEXT]


def _entry(text: str) -> tuple[str, int, str]:
    """A frame in the text of Dynamo's metrics."""
    found = STACK.fullmatch(text)
    return (found[3], int(found[1]), found[2]) if found else ("", 0, "")


def _made_by(guard: str, own: str) -> list[tuple[str, int, str]]:
    """The frames at which a guard was created; ``own``: the file of the recompiled function."""
    made = [(one[1], int(one[2]), one[3]) for one in MADE.finditer(guard)]
    if not made and (found := SYMBOLIC.search((guard.splitlines() or [""])[0])):
        end, name = found["file"], os.path.basename(found["file"])
        files = (file for file in (own, *linecache.cache) if file.endswith(end) and os.path.basename(file) == name)
        made = [(next(files, ""), int(found["line"]), found["name"])]
    return made


def _lines(frames: Iterable[tuple[str, int, str]]) -> list[StackLine]:
    """The frames in the user's code."""
    found = []
    for file, line, name in frames:
        place = place_of(file) if file else None
        if place is not None and place.is_users:
            found.append(StackLine(place.name, line, linecache.getline(file, line).strip()[:300], _name(name)))
    return found[-MOST_LINES:]


def _def_line(metrics: Any) -> int:
    """The line of a function's ``def``: decorators are above it, and continuations after a graph break below."""
    file, first, name = metrics.co_filename or "", metrics.co_firstlineno or 0, metrics.co_name or ""
    is_resumed = _name(name) != name
    begin = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(_name(name))}\b")
    lines = range(first, 0, -1) if is_resumed else range(first, first + MOST_DECORATORS)
    return next((line for line in lines if begin.match(linecache.getline(file, line))), first)


def _is_around(place: tuple[str, int, str], own: tuple[str, int, str]) -> bool:
    """Whether a place is in the function itself rather than in a callee, judged by line numbers."""
    if place[0] != own[0] or place[1] < own[1]:
        return False
    lines = [linecache.getline(own[0], line) for line in range(own[1], place[1] + 1)]
    margin = len(lines[0]) - len(lines[0].lstrip())
    return all(not line.strip() or len(line) - len(line.lstrip()) > margin for line in lines[1:])
