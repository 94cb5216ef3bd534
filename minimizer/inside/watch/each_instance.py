"""Calls by module instance: in which of several equal modules some fail, and in which all that were compared are right."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..wire import Message
from .captured import CapturedGraph
from .coverage import Coverage

MOST_INSTANCES = 2000
"""More of them are left out."""


class EachInstance:
    """Takes note of the calls that fail in a run that goes on behind them."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._failed: Counter[tuple[int, str]] = Counter()
        """By key and kind of failure."""

    def fails(self, key: int | None, kind: str) -> None:
        """A call with this key fails."""
        if key is not None:
            self._failed[key, kind] += 1

    def to_json(self) -> list[Message]:
        """A row for each instance that has a name and each form of graph: its calls that were compared, and that failed by kind.

        Graphs have the same form that call the same operators in the same order, as those of equal modules do.
        """
        keys, rows, of_key = self._coverage.keys, dict[Any, Message](), dict[int, Message]()
        of_form: dict[Any, list[int]] = {}
        for graph in self._coverage.graphs:
            of_form.setdefault(graph.form, []).append(graph.index)
        for graph, made in zip(self._coverage.graphs, keys.of_graph, strict=False):
            for key in dict.fromkeys(made):
                if name := keys.name(key):
                    empty = {"name": name, "graphs": of_form[graph.form], "calls": 0, "backward": 0, "failed": {}}
                    of_key[key] = rows.setdefault((name, graph.form), empty)
            _count(graph, made, of_key)
        for (key, kind), calls in self._failed.items():
            if key in of_key:
                of_key[key]["failed"][kind] = of_key[key]["failed"].get(kind, 0) + calls
        return list(rows.values())[:MOST_INSTANCES]


def _count(graph: CapturedGraph, made: Any, of_key: dict[int, Message]) -> None:
    for name, numbers in (("calls", graph.compared), ("backward", graph.backward)):
        for number in numbers:
            if number < len(made) and made[number] in of_key:
                of_key[made[number]][name] += 1
