"""A child without torch whose every task takes its time, by a clock that only tasks move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.journal import Journal
from minimizer.inside.questions import Request


class SlowChild:
    """An executor whose tasks take ``seconds`` each, one after another; the job is asked after every second, as where it waits."""

    jobs = 1

    def __init__(self, journal: Journal, answer: Callable[[Any], Outcome], *, seconds: float) -> None:
        self._journal, self._answer, self._seconds = journal, answer, seconds
        self.elapsed = 0.0
        self.asked: list[Request] = []

    def watch(self) -> None:
        self._journal.watch()

    def judge(self, requests: Sequence[Request], **more: Any) -> list[Outcome]:
        return [outcomes[-1] for outcomes in self.repeat(requests, **more)]

    def repeat(self, requests: Sequence[Request], **_: Any) -> list[list[Outcome]]:
        return [[self._one(request)] for request in requests]

    def _one(self, request: Request) -> Outcome:
        self.asked.append(request)
        self._journal.watch()
        end = self.elapsed + self._seconds
        while self.elapsed < end:
            self.elapsed = min(end, self.elapsed + 1.0)
            self._journal.watch()
        self._journal.clock.pace.ended(self._seconds)
        return self._answer(request)


def goes_by(child: SlowChild, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every clock show what the tasks of this child have taken."""
    monkeypatch.setattr(Clock, "elapsed", property(lambda clock: child.elapsed))
