"""The fault of a job, as steps replace it."""

from __future__ import annotations

from minimizer.engine.findings import Fault
from minimizer.report.model import HistoryStep, Reduction


def step(trial: int, seconds: float, nodes: int) -> HistoryStep:
    return HistoryStep(trial=trial, seconds=seconds, nodes=nodes, by="statements")


def test_a_reduction_behind_a_search_counts_on_from_it() -> None:
    """The curve of a report shows both as one: no step of the reduction comes before the search has ended."""
    own = Reduction(level="python", trials=5, seconds=2.5, history=[step(1, 0.5, 9), step(4, 2.0, 6)])

    reduction = Fault(reduction=own).behind(7, 3.0, [step(2, 1.0, 20), step(6, 2.0, 12)]).reduced

    assert [(one.trial, one.seconds, one.nodes) for one in reduction.history] == [
        (2, 1.0, 20),
        (6, 2.0, 12),
        (8, 3.5, 9),
        (11, 5.0, 6),
    ]
    assert (reduction.trials, reduction.seconds) == (12, 5.5)
