"""Calls by module instance: in which of several equal modules some fail, and in which all that were compared are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..messages import InstanceCalls
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

    def rows(self) -> list[InstanceCalls]:
        """A row for each instance that has a name and each form of graph: its calls that were compared, and that failed by kind.

        Graphs have the same form that call the same operators in the same order, as those of equal modules do.
        """
        keys, rows, of_key = self._coverage.keys, dict[Any, InstanceCalls](), dict[int, InstanceCalls]()
        of_form: dict[Any, list[int]] = {}
        for graph in self._coverage.graphs:
            of_form.setdefault(graph.form, []).append(graph.index)
        for graph, made in zip(self._coverage.graphs, keys.of_graph, strict=False):
            for key in dict.fromkeys(made):
                if name := keys.name(key):
                    of_key[key] = rows.setdefault((name, graph.form), InstanceCalls(name, of_form[graph.form]))
            for row in _rows(graph.compared, made, of_key):
                row.calls += 1
            for row in _rows(graph.backward, made, of_key):
                row.backward += 1
        for (key, kind), calls in self._failed.items():
            if key in of_key:
                failed = of_key[key].failed
                failed[kind] = failed.get(kind, 0) + calls
        return list(rows.values())[:MOST_INSTANCES]


def _rows(numbers: Sequence[int], made: Sequence[int], of_key: Mapping[int, InstanceCalls]) -> Iterator[InstanceCalls]:
    """The row of each of these calls of a graph that has one."""
    for number in numbers:
        if number < len(made) and made[number] in of_key:
            yield of_key[made[number]]
