"""The coverage plan: which calls of a script's compiled graphs are compared, and in which run.

Calls with the same key (``inside/watch/keys.py``) differ in their values only, so one is evidence for the others, and
the first calls are the strongest. The plan orders all calls: the first call of each key, the last of each, then the
2nd, 4th, 8th and so on, then the rest in an order drawn with a fixed seed. The first run has no counts yet: it compares
by a rule that needs none (the first eight of each key, and doublings), and counts. Later runs work down the plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from minimizer.engine.child.protocol import GraphCalls

SEED = 0

Call = tuple[int, int]
"""A call of a compiled graph: index of the graph, number of the call."""


@dataclass(frozen=True)
class Plan:
    """All calls that the runs of a script have made so far, and those that were compared.

    ``steps``: most calls of each key to compare, None for no limit. ``keys``: for each graph, the key of each call.
    """

    steps: int | None = None
    keys: tuple[tuple[int, ...], ...] = ()
    watched: frozenset[Call] = frozenset()
    """Calls that a run was asked to compare."""
    compared: frozenset[Call] = frozenset()
    """Calls that were compared."""
    backward: frozenset[Call] = frozenset()
    """Calls whose gradients were compared."""

    def after(self, graphs: Sequence[GraphCalls]) -> Plan:
        """The plan after one more run.

        A run may compile a graph that it never calls, for instance without the compiler's caches, which shifts the
        indices of later graphs: earlier calls are matched by the rank of their graph among the called ones.
        """
        keys = tuple(tuple(graph.keys) for graph in graphs)
        now = dict(zip(_called(self.keys), _called(keys), strict=False))

        def with_new(known: frozenset[Call], name: str) -> frozenset[Call]:
            again = {(now[graph], call) for graph, call in known if graph in now}
            new = {(index, call) for index, graph in enumerate(graphs) for call in getattr(graph, name)}
            return frozenset(call for call in again | new if _is_among(call, keys))

        return replace(
            self,
            keys=keys,
            watched=with_new(self.watched, "watched"),
            compared=with_new(self.compared, "compared"),
            backward=with_new(self.backward, "backward"),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every planned call was watched."""
        return all(call in self.watched for _, call in self._ranked())

    @property
    def planned(self) -> int:
        """The number of planned calls: all, or ``steps`` of each key."""
        return sum(1 for _ in self._ranked())

    @property
    def untouched(self) -> int:
        """The number of keys without a watched call."""
        touched = {self.keys[graph][call] for graph, call in self.watched}
        return len({key for keys in self.keys for key in keys} - touched)

    @property
    def compared_graphs(self) -> frozenset[int]:
        """The graphs with a compared call."""
        return frozenset(graph for graph, _ in self.compared)

    @property
    def most_calls(self) -> int:
        """The number of calls of the key that was called most often."""
        return max(self._counts().values(), default=0)

    def next_calls(self, count: int) -> dict[int, list[int]]:
        """Numbers of ``count`` calls, by graph, for the next run: the next of the plan, then watched ones again."""
        ordered = sorted((call in self.watched, rank, call) for rank, call in self._ranked())
        chosen: dict[int, list[int]] = {}
        for _, _, (graph, call) in ordered[:count]:
            chosen.setdefault(graph, []).append(call)
        return {graph: sorted(calls) for graph, calls in sorted(chosen.items())}

    def _counts(self) -> Counter[int]:
        return Counter(key for keys in self.keys for key in keys)

    def _ranked(self) -> Iterator[tuple[tuple[float, ...], Call]]:
        """Every planned call with its rank; the lowest rank is compared first."""
        draw, made, seen = random.Random(SEED), self._counts(), Counter[int]()
        for graph, keys in enumerate(self.keys):
            for call, key in enumerate(keys):
                seen[key] += 1
                times, drawn = seen[key], draw.random()
                if self.steps is not None and times > self.steps:
                    continue
                if times == 1:
                    rank: tuple[float, ...] = (0, key)
                elif times == made[key]:
                    rank = (1, key)
                elif times & (times - 1) == 0:
                    rank = (2, times, key)
                else:
                    rank = (3, drawn)
                yield rank, (graph, call)


def _called(keys: Sequence[Sequence[int]]) -> list[int]:
    """The graphs with a call."""
    return [graph for graph, calls in enumerate(keys) if calls]


def _is_among(call: Call, keys: Sequence[Sequence[int]]) -> bool:
    graph, number = call
    return graph < len(keys) and number < len(keys[graph])
