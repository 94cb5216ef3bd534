"""What a survey tells of a script, gathered while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from . import tolerances
from .calls import CapturedGraph
from .failures import describe
from .raised import Raised
from .wire import FAILED, Message


class Told:
    """Counts, notes and findings of one run, and the messages that are made of them."""

    def __init__(self) -> None:
        self.graphs: list[CapturedGraph] = []
        self.compared = self.backwards = 0
        self.suspects: list[dict[str, Any]] = []
        self.missing: list[dict[str, Any]] = []
        self.raised = Raised()
        self._checks = tolerances.watch()
        self._notes: dict[str, None] = {}
        self._unsteady = ""

    @property
    def checks(self) -> list[dict[str, float]]:
        """The last of the script's own that failed."""
        return self._checks[-5:]

    def note(self, text: str) -> None:
        """Something that the report says once."""
        self._notes[text[:300]] = None

    def cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        self.note(f"graph {graph.index} could not be compared: {type(error).__name__}: {error}")

    def unsteady(self, graph: CapturedGraph) -> None:
        """Eager itself does not do the same every time."""
        self._unsteady = self._unsteady or f"compiled graph {graph.index}, call {graph.calls - 1}"

    def counts(self) -> dict[str, int]:
        return {"frames": len(self.graphs), "calls": self.compared, "backward": self.backwards}

    def finished(self, error: BaseException | None, health: Message | None, *, stopped: bool) -> Message:
        """The last message of a script that has ended."""
        return {
            "type": "finished",
            "stopped": stopped,
            "exception": describe(error) if error else None,
            "checked": self.counts(),
            "health": health,
            "suspects": self.suspects[:20],
            "missing": self.missing[:20],
            "raised": self.raised.seen,
            "checks": self.checks,
            "unsteady": self._unsteady,
            "notes": list(self._notes)[:20],
        }


def end_with(last: Callable[[], None]) -> NoReturn:
    """Do this, and end the process, whatever comes of it: the user's script, which may catch anything, must not go on."""
    status = FAILED
    try:
        last()
        status = 0
    except BaseException:  # ours
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
