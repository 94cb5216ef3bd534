"""What the runs of a script leave out, or excuse: a healthy script of which that is told, and a fault that it does not hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from canned_surveys import CHECKED, WRONG, CannedExecutor, asked_of, calls_of, error, finished, held
from healthy_verdict import report_of, says_open

from minimizer.engine.survey.cases import Case, Settled
from minimizer.engine.survey.runs import Surveys
from minimizer.vocabulary import Kind, Status


def rules(found: Settled) -> list[str]:
    """The rules by which something was excused."""
    return [one.rule for one in (*found.checked.excused, *found.excused)]  # type: ignore[attr-defined]


def triage(
    *surveys: dict[str, Any], eager: Sequence[dict[str, Any]] = (), **options: Any
) -> tuple[object, CannedExecutor]:
    executor = CannedExecutor(surveys, eager)
    return asked_of(executor, **options).run(), executor


def healthy(*surveys: dict[str, Any], **options: Any) -> Settled:
    found, _ = triage(*surveys, **options)
    assert isinstance(found, Settled) and found.status is Status.HEALTHY
    return found


@pytest.mark.fault_behind("stopped_early")
def test_what_fails_before_a_script_is_stopped_is_a_failure() -> None:
    lost = [{"graph": 1, "call": 2, "exception": error("ValueError", "bad size")}]
    raised = finished(raised=[error("ValueError", "bad size")])
    found, _ = triage(finished(stopped=True, seconds=61.7, missing=lost), held(), eager=[raised])
    assert isinstance(found, Case) and found.signature.kind is Kind.MISSING_ERROR


LONG = {"checked": {**CHECKED, "calls_made": 100}, "calls": [calls_of(0, 100, 8)]}
"""A run of a script that calls its graph a hundred times, of which eight calls are compared."""


@pytest.mark.fault_behind("calls_sampled")
def test_calls_that_the_first_run_leaves_out_are_compared_in_the_next() -> None:
    found, executor = triage(finished(**LONG), held(kind="wrong_output", verdict=WRONG, call=50))
    assert isinstance(found, Case) and found.call == 50
    assert {*range(8, 100)} <= {*executor.compiled[1].calls[0]}


@pytest.mark.needs_excuse("calls_sampled")
def test_calls_for_which_there_is_no_time_are_told_with_their_share() -> None:
    costly = finished(**LONG, seconds=100.0, comparing_seconds=99.0)
    found = healthy(costly)
    assert "calls_sampled" in rules(found)
    assert "of 100 calls that were compared" in report_of(found).summary.partition(". ")[0]


@pytest.mark.needs_excuse("values_not_asked")
def test_values_that_were_not_asked_for_are_told_before_all_else() -> None:
    assert says_open(report_of(healthy(finished(), values=False)), "values_not_asked")


@pytest.mark.fault_behind("values_not_asked")
def test_where_no_values_are_compared_an_error_is_one() -> None:
    found, _ = triage(held(kind="runtime_error", exception=error("ValueError")), values=False)
    assert isinstance(found, Case) and found.signature.kind is Kind.RUNTIME_ERROR


@pytest.mark.needs_excuse("ranks_unwatched")
@pytest.mark.fault_behind("ranks_unwatched")
def test_a_rank_for_which_there_was_no_time_is_told_before_all_else_and_its_fault_is_found_where_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One rank is at fault, and that is not the one that the first run watches."""
    runs = [finished(), held(kind="wrong_output", verdict=WRONG)]
    found, executor = triage(*runs, nproc=2)
    assert isinstance(found, Case) and executor.asked[1].rank == 1
    monkeypatch.setattr(Surveys, "affords_another", False)
    assert says_open(report_of(healthy(runs[0], nproc=2)), "ranks_unwatched")


@pytest.mark.fault_behind("passed_by")
@pytest.mark.needs_excuse("passed_by")
def test_a_graph_that_is_passed_by_hides_no_other() -> None:
    passed = {"excused": [{"rule": "passed_by", "object": "graph 1"}]}
    runs = [held(kind="wrong_output", verdict=WRONG), held(graph=0, kind="wrong_output", verdict=WRONG)]
    asked = asked_of(CannedExecutor(runs))
    assert isinstance(asked.run(), Case)
    other = asked.without([1])
    assert isinstance(other, Case) and other.graph == 0
    found = asked_of(CannedExecutor([finished(checked={**CHECKED, **passed})])).without([1])
    assert isinstance(found, Settled) and found.status is Status.HEALTHY and rules(found) == ["passed_by"]
