"""Timeouts of trials, and the silence after which a trial's stack is sampled."""

from __future__ import annotations

from collections.abc import Callable

from minimizer.engine.child.watchdog import Limits, Watchdog

FIRST_TIMEOUT = 240.0
"""Seconds until a timeout while no trial has ended without one."""
LEAST_TIMEOUT = 30.0
"""Least seconds until a timeout, however fast other trials were."""
TIMEOUT_FACTOR = 8.0
"""Multiple of the time of the slowest trial that ended without a timeout."""
SILENCE = (4.0, 10.0)
"""(least, most) seconds of silence before a trial's stack is sampled while a hang is reduced: the time of the slowest
trial that ended without a timeout, within these bounds. Silence alone decides nothing: the samples do
(`child/watchdog.py`)."""


def trial_timeout(slowest: float) -> float:
    """Seconds that a trial may take; ``slowest``: those of the slowest that ended without a timeout, or 0."""
    return max(LEAST_TIMEOUT, TIMEOUT_FACTOR * slowest) if slowest else FIRST_TIMEOUT


def trial_watchdog(slowest: float) -> Callable[[], Watchdog]:
    """A factory of watchdogs that detect a hang long before the timeout; ``slowest`` as in `trial_timeout`."""
    least, most = SILENCE
    limits = Limits(floor=min(max(least, slowest), most), apart=0.5, slow_factor=float("inf"))
    return lambda: Watchdog(limits)
