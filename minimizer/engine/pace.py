"""How fast this machine is for this job: what its own child has taken so far."""

from __future__ import annotations

from collections import deque

LATEST = 8
"""Number of trials that count: those of a reduced program take less than those at the beginning."""


class Pace:
    """Seconds that the child took to start, torch imported, and those of the latest trials. Thread-safe."""

    def __init__(self) -> None:
        self.start = 0.0
        self._trials: deque[float] = deque(maxlen=LATEST)

    @property
    def trial(self) -> float:
        """Seconds of the slowest of the latest trials; those of the start before there was one."""
        return max(tuple(self._trials), default=self.start)

    def ended(self, seconds: float) -> None:
        """Record a trial that ended before its timeout."""
        self._trials.append(seconds)
