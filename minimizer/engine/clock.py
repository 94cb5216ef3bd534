"""The time that a job may take: its budget, what is kept of it for what comes after, and shares of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Counts the seconds of a job, a job within the job among them. All that narrows it nests: the narrowest limit holds.

    Args:
        budget: seconds in all, from now on.
    """

    def __init__(self, budget: float) -> None:
        self.whole, self._budget, self._started = budget, budget, time.monotonic()
        self._reserve = self._undisturbed_until = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._started

    @property
    def budget(self) -> float:
        """Seconds from the beginning of the job to the end of its budget, or of the share of it that holds now."""
        return self._budget

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self._budget - self.elapsed)

    @property
    def spare(self) -> float:
        """Those of them that are not reserved."""
        return max(0.0, self.left - self._reserve)

    @property
    def is_undisturbed(self) -> bool:
        """Whether neither a cancellation nor the budget is to be noticed now."""
        return self.elapsed < self._undisturbed_until

    @contextmanager
    def reserving(self, seconds: float) -> Iterator[None]:
        """Inside, the budget ends this much earlier (at most a quarter of it), to leave time for what comes after."""
        before, self._reserve = self._reserve, max(self._reserve, min(seconds, self._budget / 4))
        try:
            yield
        finally:
            self._reserve = before

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Inside, the budget ends after this many seconds, if not before."""
        before, self._budget = self._budget, min(self._budget, self.elapsed + seconds)
        try:
            yield
        finally:
            self._budget = before

    @contextmanager
    def undisturbed(self, seconds: float) -> Iterator[None]:
        """Inside, neither a cancellation nor the budget is noticed, for at most this long: the result so far is written."""
        before, self._undisturbed_until = self._undisturbed_until, max(self._undisturbed_until, self.elapsed + seconds)
        try:
            yield
        finally:
            self._undisturbed_until = before
