"""Counts failing calls by module instance: which of several equal modules fail, and which passed every comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..messages import InstanceCalls
from .coverage import Coverage

MOST_INSTANCES = 2000
"""Most reported rows, to bound the message."""


class EachInstance:
    """Counts the failing calls of a run that does not stop at the first one."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._failed: Counter[tuple[int, str]] = Counter()
        """Number of failing calls, by key and kind of failure."""

    def fails(self, key: int | None, kind: str) -> None:
        """Count a failing call with this key."""
        if key is not None:
            self._failed[key, kind] += 1

    def rows(self) -> list[InstanceCalls]:
        """One row for each named instance and form of graph: its compared calls, and its failing calls by kind.

        Two graphs have the same form if they call the same operators in the same order, like those of equal modules.
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
    """The rows of these calls of a graph; calls without a row are left out."""
    for number in numbers:
        if number < len(made) and made[number] in of_key:
            yield of_key[made[number]]
