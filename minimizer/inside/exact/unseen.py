"""Counts what an exact run does not look at, or not in full: by rule, with the objects."""

from __future__ import annotations

import sys
import traceback

from ..wire import Message

MOST_OBJECTS = 20
"""Most named objects of one rule; further ones are counted."""
MOST_COUNTED = 10_000
"""Most distinguished objects of one rule."""
MOST_STACKS, LONGEST_STACK = 10, 4000
"""Most errors of our own whose stacks are kept, and characters of each."""

WALK = "walk"
"""The walk over the script's objects stopped there at its bound, or that on tensors read at the end."""
SAMPLED = "sampled"
"""A tensor hashed by a sample before the script's end, since all tensors of that look are too large."""
MACHINE = "machine"
"""An object known by its type only, since its state is the machine's or the compiler's."""
UNREADABLE = "unreadable"
"""A tensor whose values cannot be read without running code of its class."""
OBSERVER = "observer"
"""An object on which our own observer raised an error."""
LOOKS = "looks"
"""Looks left out because of the bounds on their number, work and length."""
IN_THREADS = "in threads"
"""Arguments of a call in a thread that other threads may change meanwhile; looked at from the main thread only."""
RECOMPUTED = "recomputed"
"""A call repeated by a checkpoint in a backward: no boundary."""
FILES = "files"
"""Written files that are too large to be read."""
PRINTED = "printed"
"""Printed output beyond a bound."""


class Unseen:
    """The objects that were not looked at in full, by rule, and the errors of our own."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, None]] = {}
        self.stacks: list[str] = []
        """Stacks of errors of our own, the first few."""

    def add(self, rule: str, name: str) -> None:
        """Count an object, or a moment, under a rule, once."""
        known = self._objects.setdefault(rule, {})
        if len(known) < MOST_COUNTED:
            known[name[:1000]] = None

    def error(self, name: str) -> None:
        """Count an object for which we have just raised an error (being handled), and keep its stack."""
        is_new = name[:1000] not in self._objects.get(OBSERVER, {})
        self.add(OBSERVER, name)
        if is_new and len(self.stacks) < MOST_STACKS:
            kind, error, trace = sys.exc_info()
            text = "".join(traceback.format_tb(trace))
            said = _said(error)
            self.stacks.append(f"{name[:200]}: {kind.__name__ if kind else ''}: {said}\n{text}"[-LONGEST_STACK:])

    def told(self) -> list[Message]:
        """``rule``, ``object`` and ``count`` for each; the last object of a rule represents all unnamed ones."""
        rows: list[Message] = []
        for rule, known in self._objects.items():
            names = list(known)
            rows += [{"rule": rule, "object": name, "count": 1} for name in names[:MOST_OBJECTS]]
            if len(names) > MOST_OBJECTS:
                rows.append({"rule": rule, "object": "", "count": len(names) - MOST_OBJECTS})
        return rows


def _said(error: BaseException | None) -> str:
    """An error's own text, for types that are not the script's; empty if that raises in turn."""
    try:
        return str(error)[:500] if type(error).__module__ == "builtins" else ""
    except Exception:
        return ""
