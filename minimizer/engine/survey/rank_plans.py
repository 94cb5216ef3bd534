"""The coverage plans of a script's ranks: each run watches one rank, and the runs take turns.

A script of one process has one rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.engine.child.protocol import GraphCalls
from minimizer.engine.survey.coverage_plan import Plan
from minimizer.vocabulary import Kind


class RankPlans:
    """The coverage plan of each rank; ``rank``: the one that the last run watched, or that the first run will.

    ``steps``: most calls of each key to compare, None for no limit. ``count``: the number of ranks.
    """

    def __init__(self, steps: int | None, count: int) -> None:
        self.rank, self.count = 0, count
        self._plans = [Plan(steps)] * count
        self._runs: list[tuple[int, Sequence[GraphCalls]]] = []

    @property
    def _plan(self) -> Plan:
        return self._plans[self.rank]

    def turn(self) -> None:
        """Let the next run watch the next rank."""
        self.rank = (self.rank + 1) % self.count

    def after(self, graphs: Sequence[GraphCalls]) -> None:
        """Record a run that watched the present rank."""
        self._plans[self.rank] = self._plan.after(graphs)
        self._runs.append((self.rank, graphs))

    @property
    def runs(self) -> int:
        """The number of runs that came to their end."""
        return len(self._runs)

    def passed(self, kind: Kind, graph: int | None, call: int, *, earlier: int) -> int:
        """The number of the ``earlier`` runs that watched this rank and would have shown this failure at this call."""
        runs = [graphs for rank, graphs in self._runs[:earlier] if rank == self.rank]
        if not kind.is_numeric or graph is None:
            return len(runs)
        compared = [graphs[graph] for graphs in runs if graph < len(graphs)]
        return sum(call in (each.backward if kind is Kind.WRONG_GRADIENT else each.compared) for each in compared)

    @property
    def _watched(self) -> set[int]:
        return {rank for rank, _ in self._runs}

    def next_calls(self, count: int) -> dict[int, list[int]] | None:
        """About ``count`` calls of this rank, by graph, for its next run to compare; None before its first run."""
        return self._plan.next_calls(count) if self.rank in self._watched else None

    @property
    def is_complete(self) -> bool:
        """Whether every planned call of every rank was watched."""
        return len(self._watched) == self.count and all(plan.is_complete for plan in self._plans)

    @property
    def untouched(self) -> int:
        """The number of keys of the watched ranks without a watched call."""
        return sum(plan.untouched for plan in self._plans)

    @property
    def compared_graphs(self) -> frozenset[int]:
        """The graphs of this rank with a compared call."""
        return self._plan.compared_graphs

    @property
    def most_calls(self) -> int:
        """The number of calls of the key that was called most often."""
        return max(plan.most_calls for plan in self._plans)

    def counts(self) -> dict[str, int]:
        """Calls and backward passes compared in all ranks; for several ranks also the calls made and planned."""
        counts = {
            "calls": sum(len(plan.compared) for plan in self._plans),
            "backward": sum(len(plan.backward) for plan in self._plans),
        }
        if self.count > 1:
            counts["calls_made"] = sum(len(keys) for plan in self._plans for keys in plan.keys)
            counts["planned"] = sum(plan.planned for plan in self._plans)
        return counts

    def left_out(self) -> list[str]:
        """A line that names the ranks that no run has watched; empty if there are none."""
        others = [str(rank) for rank in range(self.count) if rank not in self._watched]
        if not others or not self._watched:
            return []
        names = f"rank {others[0]}" if len(others) == 1 else f"ranks {', '.join(others[:-1])} and {others[-1]}"
        return [f"{names} of {self.count}: a run of the script watches one rank, and there was no time for more runs"]
