"""Timeouts of trials, and the silence after which a trial's stack is sampled."""

from __future__ import annotations

from collections.abc import Callable

from minimizer.engine.budget.patience import FIRST_TIMEOUT, LEAST_TIMEOUT, SILENCE, TIMEOUT_FACTOR
from minimizer.engine.child.watchdog import Limits, Watchdog


def trial_timeout(slowest: float, *, least: float = LEAST_TIMEOUT) -> float:
    """Seconds that a trial may take; ``slowest``: those of the slowest that ended without a timeout, or 0."""
    return max(least, TIMEOUT_FACTOR * slowest) if slowest else FIRST_TIMEOUT


def trial_watchdog(slowest: float) -> Callable[[], Watchdog]:
    """A factory of watchdogs that detect a hang long before the timeout; ``slowest`` as in `trial_timeout`."""
    least, most = SILENCE
    limits = Limits(floor=min(max(least, slowest), most), apart=0.5, slow_factor=float("inf"))
    return lambda: Watchdog(limits)
