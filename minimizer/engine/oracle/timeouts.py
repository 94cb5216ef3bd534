"""How long a trial may take, and how long it may say nothing before its stack is looked at."""

from __future__ import annotations

from collections.abc import Callable

from minimizer.engine.child.watchdog import Limits, Watchdog

FIRST_TIMEOUT = 240.0
"""Seconds, before any trial has ended by itself."""
LEAST_TIMEOUT = 30.0
"""Seconds, however quick the others were."""
TIMEOUT_FACTOR = 8.0
SILENCE = (4.0, 10.0)
"""(least, most) seconds of silence before a trial's stack is sampled while a hang is reduced: as long as the slowest trial that
ended by itself took as a whole, within these bounds. The stack decides, and a C++ compiler on it does not count."""


def trial_timeout(slowest: float) -> float:
    """Seconds that a trial may take; ``slowest``: those of the slowest that ended by itself, or 0."""
    return max(LEAST_TIMEOUT, TIMEOUT_FACTOR * slowest) if slowest else FIRST_TIMEOUT


def trial_watchdog(slowest: float) -> Callable[[], Watchdog]:
    """Makes watchdogs that tell a trial that hangs long before its timeout; ``slowest``: seconds a healthy one took, or 0."""
    least, most = SILENCE
    limits = Limits(floor=min(max(least, slowest), most), apart=0.5, slow_factor=float("inf"))
    return lambda: Watchdog(limits)
