"""Coverage of a run: which calls of compiled graphs were made and compared, and what was left out, with its reason."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..messages import Checked, GraphCalls
from .captured import CapturedGraph
from .keys import Keys
from .largest import Largest
from .python_state import PythonState

MOST_LEFT_OUT = 20
"""Lines of what was left out; more of them tell nobody more."""
EARLY = 8
"""Calls of a key that a first run compares without leaving any out; and calls of a graph after which a script that compiles nothing new
may be stopped."""
LEAST_SECONDS = 20.0
"""What comparing may take in any run; beyond that it takes no longer than the script itself."""


class Coverage:
    """Counts of one run.

    Which calls are compared: ``steps`` of each key where the user says so; else those in ``listed`` (numbers of calls, by graph, as
    they were chosen from the counts of an earlier run); else, in a first run, the first eight of each key, the 16th, 32nd and so on.
    ``ranks``: of the job; where there are several, no clock has a say in what is compared. ``values``: whether they are.
    """

    def __init__(
        self, steps: int | None, listed: Mapping[int, Sequence[int]] | None, ranks: int, *, values: bool
    ) -> None:
        self._steps, self._ranks, self._values = steps, ranks, values
        self._listed = None if listed is None else {graph: frozenset(calls) for graph, calls in listed.items()}
        self._begun = time.monotonic()
        self.graphs: list[CapturedGraph] = []
        self.keys = Keys()
        self.seconds = 0.0
        """What comparing has taken."""
        self.largest = Largest()
        self._frames: set[Any] = set()
        self._state = PythonState()
        self._reasons: Counter[tuple[int, str]] = Counter()
        """Calls that were to be compared and could not be, by graph and reason."""
        self._facts: dict[str, None] = {}

    def add(self, graph: CapturedGraph, frame: Any) -> None:
        """Take note of a new graph and of the frame that it is being compiled for."""
        self.graphs.append(graph)
        self._frames.add(graph.index if frame is None else frame)
        self._state.add_frame()

    def takes(self, graph: CapturedGraph, args: Sequence[Any]) -> bool:
        """Take note of a call before it is made; whether it is to be compared."""
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
        others = time.monotonic() - self._begun - self.seconds
        return self.seconds <= max(LEAST_SECONDS, others)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the body as spent on comparing."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun

    def left_out(self, graph: CapturedGraph, why: str) -> None:
        """A call of a graph was not compared."""
        self._reasons[graph.index, why[:300]] += 1

    def also(self, what: str) -> None:
        """Something else that is not compared, in a sentence."""
        self._facts[what[:400]] = None

    def counts(self) -> Checked:
        """The figures that are known at any time."""
        return Checked(
            frames=len(self._frames),
            graphs=len(self.graphs),
            planned=self._planned,
            calls=sum(len(graph.compared) for graph in self.graphs),
            calls_made=sum(graph.calls for graph in self.graphs),
            backward=sum(len(graph.backward) for graph in self.graphs),
        )

    def checked(self) -> Checked:
        """All figures, at the end of the run."""
        return replace(
            self.counts(),
            instances=len(self.keys.instances.names) or None,
            largest=self.largest.found,
            not_compared=list(itertools.islice(self._left_out(), MOST_LEFT_OUT)),
            state=self._state.sentences(),
        )

    def calls(self) -> list[GraphCalls]:
        """The calls of each graph."""
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
        """Whether every graph was called often enough for a script that compiles nothing new to be stopped."""
        return all(graph.calls >= (self._steps or EARLY) for graph in self.graphs)

    @property
    def _planned(self) -> int:
        if not self._values:
            return 0
        return sum(graph.calls for graph in self.graphs) if self._steps is None else self.keys.up_to(self._steps)

    def _left_out(self) -> Iterator[str]:
        for (graph, why), calls in self._reasons.items():
            yield f"{_calls(calls)} of graph {graph}: {why}"
        for each in self.graphs:
            if each.backwards_given_up:
                yield f"gradients of {_calls(each.backwards_given_up)} of graph {each.index}: too many wait for a backward at once"
        yield from self._facts


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"
