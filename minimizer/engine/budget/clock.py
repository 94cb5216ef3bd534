"""A job's clock: its budget, what is held back for later steps, and time limits of single steps.

The budget is a promise. All that waits asks `Journal.watch` or `Journal.watch_owner` at short intervals, runs in clean processes are
started for no longer than what is `left`, and `Warden` ends every process of a job that `is_over`, so that no wait can last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minimizer.engine.budget.pace import Pace
from minimizer.engine.budget.patience import JOB_LATE_SECONDS, RESERVE_SHARE
from minimizer.errors import BudgetExceeded


class Clock:
    """Measures a job's time against its budget; a fault that is recorded apart shares the clock.

    The context managers nest, and the narrowest limit holds.

    Args:
        budget: seconds for the whole job.
        began: when they began, by ``time.monotonic``; now by default.
    """

    def __init__(self, budget: float, began: float | None = None) -> None:
        self.whole, self._budget = budget, budget
        self._started = time.monotonic() if began is None else began
        self._undisturbed_until = 0.0
        self._held_back: Callable[[], float] = float
        self.pace = Pace()
        """How fast the job's child is, by which later steps are held time back for."""

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
        """Seconds of the budget that are left and not held back."""
        return max(0.0, self.left - self._held_back())

    @property
    def is_over(self) -> bool:
        """Whether the whole budget, and the seconds in which what runs ends by itself, are over."""
        return self.elapsed >= self.whole + JOB_LATE_SECONDS

    def used_up(self) -> BudgetExceeded:
        """What ends a job, or a step, whose time is over."""
        return BudgetExceeded(f"the budget of {self._budget:.0f} seconds is used up")

    @property
    def is_undisturbed(self) -> bool:
        """Whether cancellation is ignored at the moment."""
        return self.elapsed < self._undisturbed_until

    @contextmanager
    def reserving(self, seconds: Callable[[], float], most: float = RESERVE_SHARE) -> Iterator[None]:
        """Inside, `spare` leaves out what ``seconds`` says by then, kept for later steps.

        ``most``: the largest part of what is left at the beginning that is kept.
        """
        before, limit = self._held_back, most * self.left
        self._held_back = lambda: max(before(), min(seconds(), limit))
        try:
            yield
        finally:
            self._held_back = before

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
        """Inside, cancellation is ignored for at most this many seconds, to write results. The budget is not."""
        before, self._undisturbed_until = self._undisturbed_until, max(self._undisturbed_until, self.elapsed + seconds)
        try:
            yield
        finally:
            self._undisturbed_until = before


@contextmanager
def until_over() -> Iterator[None]:
    """Inside, the end of the time ends what is inside only; another limit that is used up ends the job."""
    try:
        yield
    except BudgetExceeded as error:
        if not error.is_time:
            raise
