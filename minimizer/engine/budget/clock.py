"""A job's clock: its budget, the reserves for later steps, and time limits of single steps.

The budget is a promise. Every wait calls `Journal.watch` or `Journal.watch_owner` at short intervals, runs in clean
processes get no longer timeout than what is `left`, and `Warden` kills every process of a job that `is_over`. So no
wait is unbounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minimizer.engine.budget.pace import Pace
from minimizer.engine.budget.patience import JOB_LATE_SECONDS, RESERVE_SHARE
from minimizer.errors import BudgetExceeded


class Clock:
    """Measures a job's time against its budget; a separately recorded fault shares the clock.

    The context managers nest; the narrowest limit holds.

    Args:
        budget: seconds for the whole job.
        began: start of the budget, by ``time.monotonic``; by default now.
    """

    def __init__(self, budget: float, began: float | None = None) -> None:
        self.whole, self._budget = budget, budget
        self._started = time.monotonic() if began is None else began
        self._undisturbed_until = 0.0
        self._held_back: Callable[[], float] = float
        self.pace = Pace()
        """The speed of the job's child, from which the reserves for later steps are computed."""

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._started

    @property
    def budget(self) -> float:
        """Seconds from the start of the job to the end of its budget, or of the narrowest `within`."""
        return self._budget

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return max(0.0, self._budget - self.elapsed)

    @property
    def spare(self) -> float:
        """Seconds of the budget that are left and not reserved."""
        return max(0.0, self.left - self._held_back())

    @property
    def is_over(self) -> bool:
        """Whether the whole budget is over, and the grace period in which processes end by themselves."""
        return self.elapsed >= self.whole + JOB_LATE_SECONDS

    def used_up(self) -> BudgetExceeded:
        """The exception that ends a job or a step at the end of its time."""
        return BudgetExceeded(f"the budget of {self._budget:.0f} seconds is used up")

    @property
    def is_undisturbed(self) -> bool:
        """Whether cancellation is ignored at the moment."""
        return self.elapsed < self._undisturbed_until

    @contextmanager
    def reserving(self, seconds: Callable[[], float], most: float = RESERVE_SHARE) -> Iterator[None]:
        """Inside, `spare` leaves out ``seconds()``, which is reserved for later steps.

        ``most``: the largest share of the time left at the beginning that is reserved.
        """
        before, limit = self._held_back, most * self.left
        self._held_back = lambda: max(before(), min(seconds(), limit))
        try:
            yield
        finally:
            self._held_back = before

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Inside, the budget ends after at most this many seconds."""
        before, self._budget = self._budget, min(self._budget, self.elapsed + seconds)
        try:
            yield
        finally:
            self._budget = before

    @contextmanager
    def undisturbed(self, seconds: float) -> Iterator[None]:
        """Inside, cancellation is ignored for at most this many seconds, so that results can be written; the budget
        holds.
        """
        before, self._undisturbed_until = self._undisturbed_until, max(self._undisturbed_until, self.elapsed + seconds)
        try:
            yield
        finally:
            self._undisturbed_until = before


@contextmanager
def suppressing_end_of_time() -> Iterator[None]:
    """Swallow the end of the time inside; another limit that is used up still ends the job."""
    try:
        yield
    except BudgetExceeded as error:
        if not error.is_time:
            raise
