"""What a survey tells of a script, gathered while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from ..failures import describe
from ..referee.referee import Verdict
from ..wire import FAILED, Message
from . import tolerances
from .captured import CapturedGraph
from .coverage import Coverage
from .raised_errors import Raised

MOST_SUSPECTS = 100
"""Graphs: each costs another run of the script."""


class Told:
    """Coverage, notes and findings of one run, and the messages that are made of them."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self._begun = time.monotonic()
        self._suspects: dict[int, Message] = {}
        self._layouts: dict[int, Message] = {}
        self._moved: dict[int, float] = {}
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
        """A call, its gradients, or the whole graph: by a fault of ours, or of what it is given."""
        graph.obstacle = f"{type(error).__name__}: {error}"
        self.note(f"graph {graph.index} could not be compared: {graph.obstacle}")

    def unsteady(self, graph: CapturedGraph) -> None:
        """Eager itself does not do the same every time."""
        self._unsteady = self._unsteady or f"compiled graph {graph.index}, call {graph.calls - 1}"

    def suspect(self, graph: CapturedGraph, call: int, verdict: Verdict) -> None:
        """A call whose values or gradients differ behind a jump; of each graph the one with most of them is kept."""
        moved = max(
            (d.mismatched / d.elements for d in verdict.differences if d.mismatched and d.elements), default=0.0
        )
        if verdict.discrete and moved >= self._moved.get(graph.index, 0.0):
            self._moved[graph.index] = moved
            self._suspects[graph.index] = {"graph": graph.index, "call": call, "verdict": verdict.to_json()}

    def layout(self, graph: CapturedGraph, call: int, verdict: Verdict) -> None:
        """A call whose values are right and whose memory layout is another; of each graph the first one is kept."""
        self._layouts[graph.index] = {"graph": graph.index, "call": call, "verdict": verdict.to_json()}

    def knows_layout_of(self, graph: CapturedGraph) -> bool:
        """Whether an earlier call of a graph had another memory layout."""
        return graph.index in self._layouts

    def uncompared(self) -> list[Message]:
        """The graphs that ran, and of which no call could be compared, each with the reason."""
        graphs = [graph for graph in self.coverage.graphs if graph.obstacle and not graph.compared]
        return [{"graph": graph.index, "why": graph.obstacle[:300]} for graph in graphs]

    def finished(self, error: BaseException | None, health: Message | None, *, stopped: bool) -> Message:
        """The last message of a script that has ended."""
        return {
            "type": "finished",
            "stopped": stopped,
            "exception": describe(error) if error else None,
            "seconds": time.monotonic() - self._begun,
            "comparing_seconds": self.coverage.seconds,
            "checked": self.coverage.to_json(),
            "calls": self.coverage.calls(),
            "health": health,
            "uncompared": self.uncompared()[:20],
            "suspects": list(self._suspects.values())[:MOST_SUSPECTS],
            "layouts": list(self._layouts.values())[:MOST_SUSPECTS],
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
