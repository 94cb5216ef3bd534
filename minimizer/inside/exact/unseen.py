"""Counts what an exact run does not look at, or not in full: by rule, with the objects."""

from __future__ import annotations

import sys
import traceback

from ..wire import Message

MOST_OBJECTS = 20
"""Most objects of one rule that are named; further ones are counted."""
MOST_COUNTED = 10_000
"""Most objects of one rule that are told apart."""
MOST_STACKS, LONGEST_STACK = 10, 4000
"""Most errors of our own whose stacks are kept, and characters of each."""

WALK = "walk"
"""The walk over the script's objects stopped there: it has a bound, as has what the look at the end reads of tensors."""
SAMPLED = "sampled"
"""A tensor of which a sample was hashed before the script's end, since all tensors of that look are too large."""
MACHINE = "machine"
"""An object known by its type only, since its state is the machine's or the compiler's."""
UNREADABLE = "unreadable"
"""A tensor whose values cannot be read without running code of its class."""
OBSERVER = "observer"
"""An object over which our own observer raised an error."""
LOOKS = "looks"
"""Looks that were left out: there is a bound on their number, their work and their length."""
IN_THREADS = "in threads"
"""Objects that a call in a thread was given and that other threads may change meanwhile; looked at from the main thread only."""
RECOMPUTED = "recomputed"
"""A call that a checkpoint made again in a backward: no boundary."""
FILES = "files"
"""Files that the script wrote and that are too large to be read."""
PRINTED = "printed"
"""What the script printed beyond a bound."""


class Unseen:
    """The objects that were not looked at in full, by rule, and the errors of our own."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, None]] = {}
        self.stacks: list[str] = []
        """Stacks of errors of our own, the first few."""

    def add(self, rule: str, name: str) -> None:
        """Count an object, or a moment, under a rule; one that is known already counts once."""
        known = self._objects.setdefault(rule, {})
        if len(known) < MOST_COUNTED:
            known[name[:1000]] = None

    def error(self, name: str) -> None:
        """Count an object over which we have just raised an error, which is being handled, and keep its stack."""
        is_new = name[:1000] not in self._objects.get(OBSERVER, {})
        self.add(OBSERVER, name)
        if is_new and len(self.stacks) < MOST_STACKS:
            kind, error, trace = sys.exc_info()
            text = "".join(traceback.format_tb(trace))
            said = _said(error)
            self.stacks.append(f"{name[:200]}: {kind.__name__ if kind else ''}: {said}\n{text}"[-LONGEST_STACK:])

    def told(self) -> list[Message]:
        """For each rule and object ``rule``, ``object`` and ``count``; the last object of a rule stands for all that are not named."""
        rows: list[Message] = []
        for rule, known in self._objects.items():
            names = list(known)
            rows += [{"rule": rule, "object": name, "count": 1} for name in names[:MOST_OBJECTS]]
            if len(names) > MOST_OBJECTS:
                rows.append({"rule": rule, "object": "", "count": len(names) - MOST_OBJECTS})
        return rows


def _said(error: BaseException | None) -> str:
    """An error's own text, of types that are not the script's; empty if that raises in its turn."""
    try:
        return str(error)[:500] if type(error).__module__ == "builtins" else ""
    except Exception:
        return ""
