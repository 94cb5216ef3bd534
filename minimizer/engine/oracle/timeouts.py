"""Timeouts of trials, and the silence after which a trial's stack is sampled, both derived from earlier trials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from minimizer.engine.budget.patience import FIRST_TIMEOUT, LEAST_TIMEOUT, SILENCE, TIMEOUT_FACTOR
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.watchdog import Limits, Watchdog


class TrialTimes:
    """The durations of one type of trials. May be shared between threads.

    ``slowest``: seconds of the slowest that ended without a timeout, or 0.
    """

    def __init__(self, slowest: float = 0.0) -> None:
        self.slowest = slowest
        self._noting = threading.Lock()

    def note(self, outcomes: Iterable[Outcome]) -> None:
        """Record the durations of these trials, except stopped or lost ones."""
        ended = [one.seconds for one in outcomes if one.ending not in (Ending.TIMEOUT, Ending.LOST)]
        with self._noting:
            self.slowest = max([self.slowest, *ended])

    def timeout(self, *, least: float = LEAST_TIMEOUT) -> float:
        """Timeout of a trial in seconds."""
        return max(least, TIMEOUT_FACTOR * self.slowest) if self.slowest else FIRST_TIMEOUT

    def watchdog(self, *, at_first: float = 0.0) -> Callable[[], Watchdog]:
        """A factory of watchdogs that detect a hang long before the timeout.

        ``at_first``: replaces ``slowest`` until that is known.
        """
        least, most = SILENCE
        silence = min(max(least, self.slowest or at_first), most)
        limits = Limits(floor=silence, apart=0.5, slow_factor=float("inf"))
        return lambda: Watchdog(limits)
