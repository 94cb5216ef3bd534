"""Budget and cancellation: when a job is stopped, and when it is left alone to finish."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import JOB_LATE_SECONDS
from minimizer.engine.journal import Journal
from minimizer.errors import BudgetExceeded, Cancelled
from minimizer.report.model import Report
from minimizer.sink import FolderSink
from minimizer.vocabulary import Status, Step


class Stopped(FolderSink):
    def cancelled(self) -> bool:
        return True


def test_a_used_up_budget_stops_the_job(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded, match="0 seconds"):
        Journal(FolderSink(tmp_path), Report(), Clock(0)).watch()


def test_a_cancelled_job_stops(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        Journal(Stopped(tmp_path), Report(), Clock(60)).watch()


def test_a_guard_stops_the_job_wherever_it_waits(tmp_path: Path) -> None:
    def full() -> None:
        raise BudgetExceeded("the disk is full")

    journal = Journal(FolderSink(tmp_path), Report(), Clock(60))
    journal.guard = full
    for wait in (journal.watch, journal.watch_owner):
        with pytest.raises(BudgetExceeded, match="the disk is full"):
            wait()


@pytest.mark.parametrize(("wanted", "kept_free"), [(100, 100), (2000, 750)])
def test_the_search_ends_before_the_budget_does(tmp_path: Path, wanted: int, kept_free: int) -> None:
    """At most three quarters are kept free, however much is asked for."""
    journal = Journal(FolderSink(tmp_path), Report(), Clock(1000))

    def stand_at(seconds: float) -> None:
        journal.clock._started = time.monotonic() - seconds

    with journal.clock.reserving(lambda: wanted):
        stand_at(1000 - kept_free - 30)
        journal.watch()
        stand_at(1000 - kept_free + 1)
        with pytest.raises(BudgetExceeded):
            journal.watch()
    journal.watch()


def test_writing_the_result_is_not_disturbed_by_the_owner(tmp_path: Path) -> None:
    journal = Journal(Stopped(tmp_path), Report(), Clock(60))
    with journal.clock.undisturbed(3600):
        journal.watch()
    with pytest.raises(Cancelled):
        journal.watch()


@pytest.mark.parametrize("sink", [FolderSink, Stopped])
def test_writing_the_result_ends_with_the_budget(tmp_path: Path, sink: type[FolderSink]) -> None:
    journal = Journal(sink(tmp_path), Report(), Clock(0))
    with journal.clock.undisturbed(3600), pytest.raises(BudgetExceeded):
        journal.watch()


def test_what_has_a_limit_of_its_own_ends_with_the_job(tmp_path: Path) -> None:
    """Clean runs, plain runs and witnesses do not go by what is held back, and yet no further than the budget."""
    journal = Journal(FolderSink(tmp_path), Report(), Clock(100))
    with journal.clock.within(10), journal.clock.reserving(lambda: 1000.0):
        journal.clock._started = time.monotonic() - 100.5
        journal.watch_owner()
        journal.clock._started = time.monotonic() - 100 - JOB_LATE_SECONDS
        with pytest.raises(BudgetExceeded):
            journal.watch_owner()


def test_a_job_that_was_cancelled_is_not_said_to_lack_time(tmp_path: Path) -> None:
    journal = Journal(Stopped(tmp_path), Report(), Clock(-JOB_LATE_SECONDS))
    for wait in (journal.watch, journal.watch_owner):
        with pytest.raises(Cancelled):
            wait()


def test_a_job_that_is_not_disturbed_is_seen_to_live(tmp_path: Path) -> None:
    """A worker takes a job that was cancelled, and does not look up, for stuck."""
    asked = []

    class Asked(FolderSink):
        def cancelled(self) -> bool:
            asked.append(True)
            return True

    journal = Journal(Asked(tmp_path), Report(), Clock(60))
    with journal.clock.undisturbed(3600):
        journal.watch()
    assert asked == [True]


def test_steps_are_timed_and_told(tmp_path: Path) -> None:
    events: list[dict[str, object]] = []
    report = Report()
    journal = Journal(FolderSink(tmp_path, events.append), report, Clock(60))

    with pytest.raises(ValueError, match="inside"), journal.step(Step.REDUCE):
        raise ValueError("inside")

    assert [(event["step"], event["state"]) for event in events] == [("reduce", "started"), ("reduce", "finished")]
    assert "reduce" in report.timings


def test_a_step_that_is_taken_again_adds_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all steps together took as long as the job."""
    now = iter((0.0, 0.0, 0.0, 2.0, 2.0, 5.0, 5.0, 9.0, 9.0))
    for module in ("journal", "budget.clock"):
        monkeypatch.setattr(f"minimizer.engine.{module}.time", type("Time", (), {"monotonic": lambda: next(now)}))
    report = Report()
    journal = Journal(FolderSink(tmp_path), report, Clock(60))
    monkeypatch.setattr(journal, "log", lambda text: None)
    for step in (Step.REDUCE, Step.BLAME, Step.REDUCE):
        with journal.step(step):
            pass
    journal.keep()
    assert report.timings == {"reduce": 6.0, "blame": 3.0, "total": 9.0}


def test_the_clock_goes_on_whatever_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing is written but the result; what was told of the reduction stays beside it."""
    events: list[dict[str, object]] = []
    journal = Journal(FolderSink(tmp_path, events.append), Report(), Clock(600))
    journal.progress(nodes=3, nodes_before=40, trials=7, message="guess")

    def stand_at(seconds: float) -> None:
        journal.clock._started = time.monotonic() - seconds

    stand_at(100)
    with journal.clock.undisturbed(30), journal.clock.within(200):
        journal.watch()
        journal.watch()
    first, second = events
    assert (first["message"], first["decided"]) == ("guess", False)
    assert {name: second[name] for name in ("nodes", "nodes_before", "trials", "budget")} == {
        "nodes": 3, "nodes_before": 40, "trials": 7, "budget": 600,
    }  # fmt: skip
    assert second["elapsed"] == pytest.approx(100, abs=5) and "message" not in second

    journal.decide()
    assert events[-1]["decided"] is True and journal.decided_at is not None


def test_a_verdict_is_kept_before_it_is_told(tmp_path: Path) -> None:
    """Who hears that it is reached may stop the job at once, or find its process dead."""
    kept = []

    class Heard(FolderSink):
        def event(self, type_: str, **data: object) -> None:
            if data.get("decided"):
                kept.append(json.loads((tmp_path / "report.json").read_text())["status"])

    report = Report()
    journal = Journal(Heard(tmp_path), report, Clock(60))
    journal.record(replace(journal.fault, status=Status.HEALTHY))

    journal.decide()

    assert kept == ["healthy"]


def test_a_note_is_told_once(tmp_path: Path) -> None:
    events: list[dict[str, object]] = []
    report = Report()
    journal = Journal(FolderSink(tmp_path, events.append), report, Clock(60))

    journal.note("twice")
    journal.note("twice")

    assert report.notes == ["twice"]
    assert len(events) == 1


def test_the_log_moves_no_cursor(tmp_path: Path) -> None:
    journal = Journal(FolderSink(tmp_path, lambda event: None), Report(), Clock(60))

    journal.log("\x1b]0;owned\x07 caf\N{LATIN SMALL LETTER E WITH ACUTE}\tend")
    journal.keep()

    assert (tmp_path / "run.log").read_text().endswith("  ?]0;owned? caf\N{LATIN SMALL LETTER E WITH ACUTE}\tend\n")


def test_progress_is_told_of_the_whole_budget_inside_of_a_share_of_it(tmp_path: Path) -> None:
    class Heard(FolderSink):
        def event(self, type_: str, **data: object) -> None:
            heard.append(data.get("budget"))

    heard: list[object] = []
    journal = Journal(Heard(tmp_path), Report(), Clock(900))
    with journal.clock.within(20.0):
        journal.progress(message="looking")
    assert heard == [900]
