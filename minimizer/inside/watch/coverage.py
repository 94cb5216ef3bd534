"""Coverage of a run: how many calls of compiled graphs were made and compared, and what was left out, with its reason."""

from __future__ import annotations

import contextlib
import itertools
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..wire import Message
from .calls import CapturedGraph
from .largest import Largest
from .python_state import PythonState

MOST_LEFT_OUT = 20
"""Lines of what was left out; more of them tell nobody more."""
MOST_INSTANCES = 100_000


class Coverage:
    """Counts of one run. ``steps``: the calls of each graph that are to be compared; 0 where no values are."""

    def __init__(self, steps: int, ranks: int) -> None:
        self._steps, self._ranks = steps, ranks
        self.graphs: list[CapturedGraph] = []
        self.compared = self.backwards = 0
        self.seconds = 0.0
        """What comparing has taken."""
        self.largest = Largest()
        self._frames: set[Any] = set()
        self._instances = Instances()
        self._state = PythonState()
        self._reasons: Counter[tuple[int, str]] = Counter()
        """Calls that were to be compared and could not be, by graph and reason."""
        self._facts: dict[str, None] = {}

    def add(self, graph: CapturedGraph, frame: Any) -> None:
        """Take note of a new graph and of the frame that it is being compiled for."""
        self.graphs.append(graph)
        self._frames.add(graph.index if frame is None else frame)
        self._state.add_frame()

    def called(self, graph: CapturedGraph, args: Sequence[Any], *, compared: bool) -> None:
        """Take note of a call, before it is made."""
        graph.calls += 1
        self._instances.saw([args[place] for place in graph.state_places if place < len(args)], compared=compared)

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

    def counts(self) -> dict[str, int]:
        """The figures that are known at any time."""
        return {
            "frames": len(self._frames), "graphs": len(self.graphs), "calls": self.compared, "planned": self._planned,
            "calls_made": sum(graph.calls for graph in self.graphs), "backward": self.backwards,
        }  # fmt: skip

    def to_json(self) -> Message:
        """All figures, at the end of the run."""
        return {
            **self.counts(),
            "instances": self._instances.count,
            "largest": self.largest.to_json(),
            "not_compared": list(itertools.islice(self._left_out(), MOST_LEFT_OUT)),
        }

    @property
    def most_calls(self) -> int:
        """Calls of the graph that was called most often."""
        return max((graph.calls for graph in self.graphs), default=0)

    @property
    def _planned(self) -> int:
        return sum(min(self._steps, graph.calls) for graph in self.graphs)

    def _left_out(self) -> Iterator[str]:
        if self._steps and (later := sum(graph.calls for graph in self.graphs) - self._planned):
            yield f"{_calls(later)} after the first {self._steps} of a graph: only those are compared (--steps)"
            if unseen := self._instances.not_compared:
                yield (
                    f"{unseen} of {self._instances.count} sets of parameters: equal modules share a graph, and only its "
                    f"first {self._steps} calls are compared (--steps)"
                )
        for (graph, why), calls in self._reasons.items():
            yield f"{_calls(calls)} of graph {graph}: {why}"
        for each in self.graphs:
            if each.backwards_given_up:
                yield f"gradients of {_calls(each.backwards_given_up)} of graph {each.index}: none had come by its next call"
        if self._ranks > 1:
            yield f"all ranks but the first of {self._ranks}: only rank 0 is compared"
        yield from self._facts
        yield from self._state.sentences()


class Instances:
    """Counts the sets of parameters and buffers that graphs are called with: equal modules share a graph, each brings its own.

    ``count`` is None where no graph takes any.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], list[Any]] = {}
        """By identity of the tensors: a weak reference to the first, as identities are given out anew, and whether a call with
        them was compared."""
        self._gone = [0, 0]
        """Those that are gone, and how many of them were not compared."""

    def saw(self, tensors: Sequence[torch.Tensor], *, compared: bool) -> None:
        key = tuple(map(id, tensors))
        if not key:
            return
        known = self._seen.get(key)
        if known is not None and known[0]() is not tensors[0]:
            self._gone[0] += 1
            self._gone[1] += not known[1]
            known = None
        if known is not None:
            known[1] = known[1] or compared
        elif len(self._seen) < MOST_INSTANCES:
            self._seen[key] = [weakref.ref(tensors[0]), compared]

    @property
    def count(self) -> int | None:
        return len(self._seen) + self._gone[0] or None

    @property
    def not_compared(self) -> int:
        return sum(not compared for _, compared in self._seen.values()) + self._gone[1]


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"
