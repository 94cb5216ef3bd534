"""The record of a survey: the calls of its script and their results, gathered while the script runs.

Every observer of the script (`Comparer`, `Holder`, the hook) writes here, and reads what others wrote.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ..excuses import Excuses
from ..failures import describe
from ..messages import Checked, Missing, Seen, Uncompared
from ..questions import SurveyRequest
from ..referee.verdict import Verdict
from . import tolerances
from .captured import CapturedGraph
from .coverage import Coverage
from .each_instance import EachInstance
from .health import Health
from .largest import Largest
from .raised_errors import Raised

MOST_LEFT_OUT = 20
"""Most lines in the report about skipped calls; a longer list adds nothing for a reader."""


class Record:
    """Coverage, excuses, notes and findings of one run. ``asked``: the request."""

    def __init__(self, asked: SurveyRequest) -> None:
        self.asked = asked
        self.coverage = Coverage(asked)
        self.health, self.largest, self.raised = Health(), Largest(), Raised()
        self.each = EachInstance(self.coverage) if asked.each else None
        """Counts failing calls while the script continues; None: the first failing call is held."""
        self._excuses = Excuses()
        """Every rule that skipped or excused something in this run."""
        self._reasons: Counter[tuple[int, str]] = Counter()
        """Number of planned calls that could not be compared, by graph and reason."""
        self._facts: dict[str, None] = {}
        self.notes: dict[str, None] = {}
        self.suspects: dict[tuple[int, str], Seen] = {}
        """Calls that differ behind a jump, by graph and phase."""
        self._moved: dict[tuple[int, str], float] = {}
        self.layouts: dict[int, Seen] = {}
        self.missing: list[Missing] = []
        self.checks = tolerances.watch()
        self.unsteady = ""
        """The first call at which eager differed from eager; empty if none did."""
        self.other_zeros = ""
        """The first call with a result that is right but for the sign of a zero; empty if there was none."""
        self.behind_change = ""
        """The first backward before which the script had changed an input of its call; empty if there was none."""

    # writing -----------------------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add a note for the report; a repeated note is kept once."""
        self.notes[text[:300]] = None

    def excuse(
        self, rule: str, graph: CapturedGraph | None, *, times: int = 1, left_out: str = "", fact: str = ""
    ) -> None:
        """Count an application of a rule.

        Args:
            rule: a name from ``minimizer/excuses.py``.
            graph: the graph that it was applied to.
            times: how often.
            left_out: why it skips a call of the graph; empty if it does not.
            fact: a sentence on what else it skips; empty if nothing.
        """
        self._excuses.excuse(rule, "" if graph is None else f"graph {graph.index}", times)
        if left_out and graph is not None:
            self._reasons[graph.index, left_out[:300]] += 1
        if fact:
            self._facts[fact[:400]] = None

    def compared(self, graph: CapturedGraph, call: int, verdict: Verdict, phase: str = "run") -> None:
        """Record a call that was judged, or its gradients (``backward``), and what the referee excused in it.

        Among the suspects of each graph and phase, the call with the largest fraction of mismatched elements is kept.
        """
        (graph.backward if phase == "backward" else graph.compared).append(call)
        for rule in verdict.excuses:
            self.excuse(rule, graph)
        key = graph.index, phase
        moved = max(
            (d.mismatched / d.elements for d in verdict.differences if d.mismatched and d.elements), default=0.0
        )
        if verdict.discrete and moved >= self._moved.get(key, 0.0):
            self._moved[key] = moved
            self.suspects[key] = Seen(graph.index, call, verdict, phase)

    def layout(self, graph: CapturedGraph, call: int, verdict: Verdict) -> None:
        """Record a call that differs in memory layout only; `Comparer` passes the first one of each graph."""
        self.layouts[graph.index] = Seen(graph.index, call, verdict)

    def cannot_compare(self, graph: CapturedGraph, error: Exception) -> None:
        """Record why a call, its gradients or the whole graph cannot be compared."""
        graph.obstacle = f"{type(error).__name__}: {error}"
        self.note(f"graph {graph.index} could not be compared: {graph.obstacle}")

    def raises_on_copies(self, graph: CapturedGraph, call: int, error: Exception) -> None:
        """Record a call that returned when compiled, and raised in eager."""
        self.missing.append(Missing(graph.index, call, describe(error)))
        why = "eager cannot run it on copies of its inputs"
        graph.obstacle = f"{why}: {type(error).__name__}: {error}"
        self.excuse("eager_raises_on_copies", graph, left_out=f"{why} ({type(error).__name__})")

    def is_unsteady(self, graph: CapturedGraph) -> None:
        """Record that eager itself is nondeterministic at the graph's latest call."""
        self.unsteady = self.unsteady or f"compiled graph {graph.index}, call {graph.calls - 1}"

    # reading -----------------------------------------------------------------------------------------------------

    def checked(self) -> Checked:
        """The final figures: counts, module instances, the largest difference, and what was not compared; call it once."""
        coverage = self.coverage
        for graph in coverage.graphs:
            self.excuse("gradients_given_up", graph, times=graph.backwards_given_up)
        return replace(
            coverage.counts(),
            instances=len(coverage.keys.instances.names) or None,
            largest=self.largest.found,
            not_compared=list(itertools.islice(self._left_out(), MOST_LEFT_OUT)),
            state=coverage.state.sentences(),
            excused=self._excuses.rows(),
        )

    def _left_out(self) -> Iterator[str]:
        for (graph, why), number in self._reasons.items():
            yield f"{_calls(number)} of graph {graph}: {why}"
        for each in self.coverage.graphs:
            if each.backwards_given_up:
                yield f"gradients of {_calls(each.backwards_given_up)} of graph {each.index}: too many wait for a backward at once"
        yield from self._facts

    def uncompared(self) -> list[Uncompared]:
        """The graphs without a comparable call, each with the reason."""
        graphs = [graph for graph in self.coverage.graphs if graph.obstacle and not graph.compared]
        return [Uncompared(graph.index, graph.obstacle[:300]) for graph in graphs]


def _calls(number: int) -> str:
    return f"{number:,} call{'' if number == 1 else 's'}"
