"""Coverage of a run: which calls of compiled graphs were made and compared, and what was left out, with its reason."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..excuses import Excuses
from ..messages import Checked, GraphCalls
from .captured import CapturedGraph
from .keys import Keys
from .largest import Largest
from .python_state import PythonState

MOST_LEFT_OUT = 20
"""Lines in the report about calls that were left out; a longer list adds nothing for a reader."""
EARLY = 8
"""A first run compares this many calls of each key without gaps. Once every graph was called this often, a script that compiles
nothing new may be stopped."""
LEAST_SECONDS = 20.0
"""Seconds that comparing may take in any run; beyond that, comparing may take no longer than the script itself."""


class Coverage:
    """Decides which calls of one run are compared, and counts calls made, compared and left out.

    Compared are: the first ``steps`` calls of each key, if the user set it; else the calls in ``listed`` (call numbers by graph, chosen
    from the counts of an earlier run); else, in a first run, the first eight calls of each key, the 16th, the 32nd and so on.
    ``ranks``: number of ranks of the job; with several, time does not limit what is compared, so that all ranks choose the same calls.
    ``values``: False if no values are compared at all.
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
        """Seconds spent on comparing so far."""
        self.largest = Largest()
        self._frames: set[Any] = set()
        self._state = PythonState()
        self._reasons: Counter[tuple[int, str]] = Counter()
        """Number of calls that should have been compared and could not be, by graph and reason."""
        self._facts: dict[str, None] = {}
        self.excuses = Excuses()
        """Every rule that looked away from something in this run, or excused it."""

    def add(self, graph: CapturedGraph, frame: Any) -> None:
        """Record a new graph and the frame that it is being compiled for."""
        self.graphs.append(graph)
        self._frames.add(graph.index if frame is None else frame)
        self._state.add_frame()

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
        others = time.monotonic() - self._begun - self.seconds
        return self.seconds <= max(LEAST_SECONDS, others)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the ``with`` body as spent on comparing."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun

    def left_out(self, graph: CapturedGraph, why: str) -> None:
        """Record a call of a graph that was not compared, with the reason. The rule by which is the caller's to count."""
        self._reasons[graph.index, why[:300]] += 1

    def also(self, what: str) -> None:
        """Add a sentence about something else that is not compared."""
        self._facts[what[:400]] = None

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

    def checked(self) -> Checked:
        """The final figures: counts, module instances, the largest difference, and what was not compared; asked once."""
        for graph in self.graphs:
            self.excuses.excuse("gradients_given_up", f"graph {graph.index}", graph.backwards_given_up)
        return replace(
            self.counts(),
            instances=len(self.keys.instances.names) or None,
            largest=self.largest.found,
            not_compared=list(itertools.islice(self._left_out(), MOST_LEFT_OUT)),
            state=self._state.sentences(),
            excused=self.excuses.rows(),
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
