"""Stacks at a length that can be read: the script's own frames, the way into the compiler, and the frames that raised."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from minimizer.vocabulary import counted

MOST_LINES = 60
OUTERMOST, ENTRANCE, INNERMOST = 5, 3, 14
"""Frames that are kept: the script's first ones, those before the compiler is entered, and the last ones, which raised."""
MOST_SAID = 14
"""Most lines kept of the text after the frames."""
INNERMOST_FIRST = "most recent call first"
"""How ``faulthandler`` announces the order in which it writes frames; tracebacks have the other one."""
_FRAME = re.compile(r'  File "([^"]*)"')
_THREAD = re.compile(r"^(?=(?:Current thread|Thread) 0x)", re.MULTILINE)
_COMPILER = re.compile(r"torch/(_dynamo|_inductor|_functorch)/")


def shortened(text: str) -> str:
    """A traceback, or the stacks of threads, in about `MOST_LINES` lines; a line states the number of dropped frames."""
    text = text.strip("\n")
    if text.count("\n") < MOST_LINES:
        return text
    head, *threads = _THREAD.split(text)
    if threads and not _FRAME.search(head):  # the header says what happened; the affected thread comes first
        head += threads.pop(0)
    shown = _short(head.rstrip("\n").splitlines())
    others = "".join(threads).splitlines()
    room = max(0, MOST_LINES - len(shown))
    left_out = [f"... {counted(len(others) - room, 'line')} of other threads ..."] if len(others) > room else []
    return "\n".join([*shown, *others[:room], *left_out])


def _short(lines: Sequence[str]) -> list[str]:
    """One stack, shortened."""
    begins = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not begins:
        return [*lines[:MOST_LINES]]
    end = next((n for n in range(begins[-1] + 1, len(lines)) if not lines[n].startswith("    ")), len(lines))
    frames = [list(lines[a:b]) for a, b in zip(begins, [*begins[1:], end], strict=True)]
    is_reversed = any(INNERMOST_FIRST in line for line in lines[: begins[0]])
    kept = _kept(frames[::-1] if is_reversed else frames)
    kept = {len(frames) - 1 - index for index in kept} if is_reversed else kept
    shown, left_out = [*lines[: begins[0]]], list[str]()
    for index, frame in enumerate(frames):
        if index not in kept:
            left_out.append(_FRAME.match(frame[0])[1])  # type: ignore[index]
            continue
        shown += [*_gap(left_out), *frame]
        left_out = []
    said = lines[end:]
    dropped = [f"... {counted(len(said) - MOST_SAID, 'line')} ..."] if len(said) > MOST_SAID else []
    return [*shown, *_gap(left_out), *said[: MOST_SAID // 2], *dropped, *said[MOST_SAID // 2 :][-(MOST_SAID // 2) :]]


def _kept(frames: Sequence[Sequence[str]]) -> set[int]:
    """Which frames of a stack stay, outermost first."""
    count = len(frames)
    entrance = next((n for n, frame in enumerate(frames) if _COMPILER.search(frame[0])), 0)
    return {
        *range(min(OUTERMOST, count)),
        *range(max(0, entrance - ENTRANCE), min(count, entrance + 1)),
        *range(max(0, count - INNERMOST), count),
    }


def _gap(files: Sequence[str]) -> list[str]:
    """A line in the place of frames that are left out, with the packages that they are of."""
    if not files:
        return []
    packages = Counter("/".join(file.split("/")[:2]) if "/" in file else file for file in files)
    named = ", ".join(name for name, _ in packages.most_common(3))
    return [f"  ... {counted(len(files), 'frame')} in {named} ..."]
