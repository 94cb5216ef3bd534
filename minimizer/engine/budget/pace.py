"""How fast this machine is for this job: what its own child has taken so far."""

from __future__ import annotations

from collections import deque

LATEST = 8
"""Number of trials that count: those of a reduced program take less than those at the beginning."""


class Pace:
    """Seconds that the child took to start, torch imported, those of its first compilation, and of the latest trials. Thread-safe."""

    def __init__(self) -> None:
        self.start = 0.0
        self.crowding = 1.0
        """Runnable processes per core while it started, at least 1: what it took holds for a machine with that much to do."""
        self._first: float | None = None
        self._trials: deque[float] = deque(maxlen=LATEST)

    @property
    def trial(self) -> float:
        """Seconds of the slowest of the latest trials; those of the start before there was one."""
        return max(tuple(self._trials), default=self.start)

    @property
    def cold(self) -> float:
        """Seconds of a trial without a warm cache: of the first, or of the latest where they take longer."""
        return max(self._first or 0.0, self.trial)

    def ended(self, seconds: float, *, compiles: bool = True) -> None:
        """Record a trial that ended before its timeout; ``compiles``: it builds kernels."""
        self._trials.append(seconds)
        if compiles and self._first is None:
            self._first = seconds
