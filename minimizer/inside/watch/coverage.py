"""Coverage of a run: which calls of compiled graphs are compared, and which were made and compared."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..messages import Checked, GraphCalls
from ..questions import SurveyRequest
from ..time_spent import TimeSpent
from .captured import CapturedGraph
from .keys import Keys
from .python_state import PythonState

EARLY = 8
"""Number of first calls of each key that a first run compares without gaps.

Once every graph was called this often, a script without new compilations may be stopped.
"""
LEAST_SECONDS = 20.0
"""Seconds of comparison allowed in any run; beyond that, it may take no longer than the script itself."""


class Coverage:
    """Decides which calls of one run are compared, and counts calls made and compared.

    Compared are: the first ``steps`` calls of each key, if the user set it; else the listed ``calls`` (chosen from the
    counts of an earlier run); else, in a first run, the first eight calls of each key, the 16th, the 32nd and so on. In
    a job of several ranks time sets no limit, so that all ranks choose the same calls.
    """

    def __init__(self, asked: SurveyRequest) -> None:
        self._steps, self._ranks, self._values = asked.steps, asked.nproc, asked.values
        listed = asked.calls
        self._listed = None if listed is None else {int(graph): frozenset(calls) for graph, calls in listed.items()}
        self._begun = time.monotonic()
        self.graphs: list[CapturedGraph] = []
        self.keys = Keys()
        self.comparing = TimeSpent()
        self._frames: set[Any] = set()
        self.state = PythonState()

    def add(self, graph: CapturedGraph, frame: Any) -> None:
        """Record a new graph and the frame being compiled for it."""
        self.graphs.append(graph)
        self._frames.add(graph.index if frame is None else frame)
        self.state.add_frame()

    def takes(self, graph: CapturedGraph, args: Sequence[Any]) -> bool:
        """Count a call before it is made. Returns whether it should be compared."""
        number, graph.calls = graph.calls, graph.calls + 1
        graph.key, times = self.keys.take(graph, args)
        is_due = self._is_due(graph.index, number, times)
        if is_due:
            graph.watched.append(number)
        return is_due

    def _is_due(self, graph: int, number: int, times: int) -> bool:
        if self._steps is not None:
            return times <= self._steps
        if self._listed is not None:
            return number in self._listed.get(graph, ())
        is_early_or_doubled = times <= EARLY or times & (times - 1) == 0
        return times == 1 or (is_early_or_doubled and (self._ranks > 1 or self._is_affordable))

    @property
    def _is_affordable(self) -> bool:
        others = time.monotonic() - self._begun - self.comparing.seconds
        return self.comparing.seconds <= max(LEAST_SECONDS, others)

    def counts(self) -> Checked:
        """The counts so far; available at any time."""
        return Checked(
            frames=len(self._frames),
            graphs=len(self.graphs),
            planned=self._planned,
            calls=sum(len(graph.compared) for graph in self.graphs),
            calls_made=sum(graph.calls for graph in self.graphs),
            backward=sum(len(graph.backward) for graph in self.graphs),
        )

    def calls(self) -> list[GraphCalls]:
        """Keys and call numbers of each graph, from which the next run's plan is made."""
        keys = self.keys.of_graph
        return [
            GraphCalls(
                keys=list(keys[graph.index]) if graph.index < len(keys) else [],
                watched=graph.watched,
                compared=graph.compared,
                backward=graph.backward,
            )
            for graph in self.graphs
        ]

    @property
    def is_trusted(self) -> bool:
        """Whether every graph was called often enough to stop a script without new compilations."""
        return all(graph.calls >= (self._steps or EARLY) for graph in self.graphs)

    @property
    def _planned(self) -> int:
        if not self._values:
            return 0
        return sum(graph.calls for graph in self.graphs) if self._steps is None else self.keys.up_to(self._steps)
