"""A job's clock: its budget, reserves for later steps, and time limits of single steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Measures a job's time against its budget; a job within the job shares the clock.

    The context managers nest, and the narrowest limit holds.

    Args:
        budget: seconds for the whole job, counted from now.
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
        """Seconds from the start of the job to the end of its budget, or to that of the narrowest `within`."""
        return self._budget

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self._budget - self.elapsed)

    @property
    def spare(self) -> float:
        """Seconds of the budget that are left and not reserved."""
        return max(0.0, self.left - self._reserve)

    @property
    def is_undisturbed(self) -> bool:
        """Whether cancellation and the end of the budget are ignored at the moment."""
        return self.elapsed < self._undisturbed_until

    @contextmanager
    def reserving(self, seconds: float) -> Iterator[None]:
        """Inside, `spare` leaves out this many seconds (at most a quarter of the budget), kept for later steps."""
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
        """Inside, cancellation and the budget are ignored for at most this many seconds, to write results."""
        before, self._undisturbed_until = self._undisturbed_until, max(self._undisturbed_until, self.elapsed + seconds)
        try:
            yield
        finally:
            self._undisturbed_until = before
