"""A child without torch: an executor that answers requests by rule, and a survey that has golden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from minimizer.engine.child.outcome import Outcome
from minimizer.engine.child.watchdog import Watchdog
from minimizer.inside.questions import TrialRequest


class FakeExecutor:
    """Answers requests by rule and remembers them."""

    def __init__(self, answer: Callable[[TrialRequest], Outcome]) -> None:
        self._answer = answer
        self.asked: list[TrialRequest] = []
        self.timeouts: list[float] = []
        self.watchdogs: list[Callable[[], Watchdog]] = []
        self._caches = 0

    def repeat(
        self,
        requests: Sequence[TrialRequest],
        *,
        timeout: float,
        watchdog: Callable[[], Watchdog] | None = None,
    ) -> list[list[Outcome]]:
        self.asked += requests
        self.watchdogs += [watchdog] if watchdog is not None else []
        self.timeouts.append(timeout)
        return [[self._answer(request)] for request in requests]

    def fresh_cache(self) -> Path:
        self._caches += 1
        return Path(f"/clean-{self._caches}")


class FakeSurvey:
    def golden(self, keys: frozenset[str]) -> Path:
        return Path(f"/golden/{'-'.join(sorted(keys))}.pt")

    def trim(self) -> None:
        """Nothing was written."""
