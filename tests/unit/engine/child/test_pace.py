"""What the child's start and its trials are seen to take, and what ends a wait for a child that is gone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from minimizer.engine.budget.pace import LATEST, Pace
from minimizer.engine.child.connection import Connection, Life, Task
from minimizer.engine.child.environment import Place
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.protocol import Ready
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.inside.questions import TrialRequest
from minimizer.sandbox import choose_sandbox


@pytest.fixture
def place(tmp_path: Path) -> Place:
    scratch = tmp_path / "job"
    scratch.mkdir()
    return Place(python=Path(sys.executable), sandbox=choose_sandbox("off"), scratch=scratch)


class Ends:
    """A child that starts, and whose tasks end as these say, each in so many seconds."""

    def __init__(self, now: list[float], *ends: tuple[float, dict[str, Any]]) -> None:
        self._now, self._ends = now, list(ends)

    def start(self) -> Ready:
        self._now[0] += 7.0
        return Ready()

    def send(self, *_: object) -> Task:
        return Task(1, Life())

    def next(self, *_: object) -> dict[str, Any]:
        seconds, end = self._ends.pop(0)
        self._now[0] += seconds
        return {"id": 1, "end": end}

    def kill(self, task: Task) -> None:
        """It is over."""


def test_a_job_learns_how_long_its_child_takes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that was stopped at its timeout says nothing of how long the next ones take."""
    now, pace = [100.0], Pace()
    monkeypatch.setattr("minimizer.engine.child.executor.time", type("Time", (), {"monotonic": lambda: now[0]}))
    monkeypatch.setattr("minimizer.engine.child.executor.crowding", lambda: 2.5)
    executor = Executor(place, jobs=1, watch=lambda: None, pace=pace)
    executor._connection = cast(Any, Ends(now, (3.0, {"exit": 1}), (240.0, {"timed_out": True}), (2.0, {"exit": 1})))
    assert executor.start() and (pace.start, pace.trial, pace.crowding) == (7.0, 7.0, 2.5)
    seen = []
    for _ in range(3):
        executor.judge([TrialRequest(setup="", source="", name="f", inputs=[])], timeout=240)
        seen.append(pace.trial)
    assert seen == [3.0, 3.0, 3.0]
    for _ in range(LATEST):
        pace.ended(1.0)
    assert (pace.trial, pace.cold) == (1.0, 3.0)


def test_who_writes_to_a_child_that_does_not_end_is_stopped_by_the_budget(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after minutes, and not with words that blame the machine for a child that the job itself has ended."""
    calls: Iterator[Callable[[], None]] = iter((_nothing, _nothing, _over))

    def gone(self: Connection, message: object) -> None:
        raise ChildFailed("the child is gone")

    monkeypatch.setattr(Connection, "_write", gone)
    monkeypatch.setattr("minimizer.engine.child.connection.POLL_SECONDS", 0.0)
    connection = Connection(place, lambda: next(calls)())
    with pytest.raises(BudgetExceeded):
        connection._write_to(Task(1, Life()), "the child", json.loads("{}"))


def _nothing() -> None:
    """There is time."""


def _over() -> None:
    raise BudgetExceeded("the budget of 9 seconds is used up")
