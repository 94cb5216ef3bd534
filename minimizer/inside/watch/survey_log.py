"""What a survey tells of a script, gathered while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from ..messages import Missing, Seen, Uncompared
from ..referee.referee import Verdict
from ..wire import FAILED
from . import tolerances
from .captured import CapturedGraph
from .coverage import Coverage
from .raised_errors import Raised


class Told:
    """Coverage, notes and findings of one run."""

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self._suspects: dict[tuple[int, str], Seen] = {}
        self._layouts: dict[int, Seen] = {}
        self._moved: dict[tuple[int, str], float] = {}
        self.missing: list[Missing] = []
        self.raised = Raised()
        self._checks = tolerances.watch()
        self._notes: dict[str, None] = {}
        self.unsteady = ""
        """The first call at which eager was seen to differ from eager."""

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

    def is_unsteady(self, graph: CapturedGraph) -> None:
        """Eager itself does not do the same every time."""
        self.unsteady = self.unsteady or f"compiled graph {graph.index}, call {graph.calls - 1}"

    def suspect(self, graph: CapturedGraph, call: int, verdict: Verdict, phase: str = "run") -> None:
        """A call whose values differ behind a jump, or its gradients; of each graph and phase the one with most of them is kept."""
        moved = max(
            (d.mismatched / d.elements for d in verdict.differences if d.mismatched and d.elements), default=0.0
        )
        key = graph.index, phase
        if verdict.discrete and moved >= self._moved.get(key, 0.0):
            self._moved[key] = moved
            self._suspects[key] = Seen(graph.index, call, verdict, phase)

    def layout(self, graph: CapturedGraph, call: int, verdict: Verdict) -> None:
        """A call whose values are right and whose memory layout is another; of each graph the first one is kept."""
        self._layouts[graph.index] = Seen(graph.index, call, verdict)

    def knows_layout_of(self, graph: CapturedGraph) -> bool:
        """Whether an earlier call of a graph had another memory layout."""
        return graph.index in self._layouts

    @property
    def notes(self) -> list[str]:
        """What the report says once."""
        return list(self._notes)

    @property
    def suspects(self) -> list[Seen]:
        """One of each graph and phase."""
        return list(self._suspects.values())

    @property
    def layouts(self) -> list[Seen]:
        """One of each graph."""
        return list(self._layouts.values())

    def uncompared(self) -> list[Uncompared]:
        """The graphs that ran, and of which no call could be compared, each with the reason."""
        graphs = [graph for graph in self.coverage.graphs if graph.obstacle and not graph.compared]
        return [Uncompared(graph.index, graph.obstacle[:300]) for graph in graphs]


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
