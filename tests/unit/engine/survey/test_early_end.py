"""What is said where a budget ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.protocol import Phase
from minimizer.engine.journal import Journal
from minimizer.engine.survey.early_end import doing, larger, summary
from minimizer.options import MAX_BUDGET
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction, Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Kind, Step


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(FolderSink(tmp_path, lambda event: None), Report(), Clock(100.0))


def test_a_budget_that_ends_without_a_failure_names_the_step_and_a_larger_budget(journal: Journal) -> None:
    with pytest.raises(ZeroDivisionError), journal.step(Step.SURVEY):
        raise ZeroDivisionError
    said = summary(journal.report, journal, "the budget of 100 seconds is used up, compiling graph 0", is_time=True)
    assert said == (
        "Stopped while running the script: the budget of 100 seconds is used up, compiling graph 0. No failure had been found by then. "
        "--budget 200 may do: an estimate, by how long this step has taken."
    )


def test_what_was_found_by_then_is_told_with_its_graph(journal: Journal) -> None:
    report, journal.subject = journal.report, "graph 2"
    assert summary(report, journal, "over", is_time=False).endswith(
        "A difference was being examined that may be rounding."
    )
    journal.record(replace(journal.fault, failure=Failure(kind=Kind.WRONG_OUTPUT)))
    with journal.step(Step.LOCALIZE):
        pass
    assert (
        "Stopped while localizing the failure (graph 2): over. Found by then: wrong_output; there is no repro yet."
        in (summary(report, journal, "over", is_time=False))
    )
    journal.record(replace(journal.fault, culprits=(Culprit(ops=["aten.relu"], nodes=["relu"], module="layers.3"),)))
    journal.record(replace(journal.fault, reduction=Reduction(nodes_before=750, nodes_after=12)))
    journal.repro = "import torch\n"
    with journal.step(Step.REDUCE):
        pass
    assert summary(report, journal, "over", is_time=False) == (
        "Stopped while reducing (graph 2): over. Found by then: wrong_output in aten.relu of layers.3, 750 nodes down to 12; the best repro "
        "so far is kept."
    )


def test_an_end_before_the_first_step_has_words(journal: Journal) -> None:
    assert summary(journal.report, journal, "cancelled", is_time=False).startswith(
        "Stopped while preparing: cancelled."
    )


@pytest.mark.parametrize(
    ("budget", "step", "better"),
    [(300, 10, 600), (300, 280, 860), (333, 0, 670), (MAX_BUDGET - 1, 9, MAX_BUDGET), (MAX_BUDGET, 9, None)],
)
def test_a_budget_that_would_do(budget: float, step: float, better: int | None) -> None:
    assert larger(budget, step) == better


def test_what_a_run_said_last_is_what_it_was_doing() -> None:
    assert doing(Phase(doing="run", graph=1, call=3)) == "running graph 1 in its call 3, compiled"
    assert doing(Phase(doing="compile", graph=1)) == "compiling graph 1"
    assert doing(Phase(doing="script")) == "running the script's own code, with nothing compiled yet"
    assert doing(Phase(doing="script", graph=1, checked={"graphs": 2})).endswith("with 2 graphs compiled by then")
    assert doing(Phase()) == "starting the script"
