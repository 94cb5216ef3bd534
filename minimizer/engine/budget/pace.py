"""The speed of this machine for this job, measured by its own child."""

from __future__ import annotations

from collections import deque

LATEST = 8
"""Number of recent trials that count: a reduced program takes less time than the first trials."""


class Pace:
    """Seconds that the child took to start (importing torch), to compile first, and to run the latest trials.

    Thread-safe.
    """

    def __init__(self) -> None:
        self.start = 0.0
        self.crowding = 1.0
        """Runnable processes per core while the child started, at least 1: its start-up time holds for a machine this
        busy.
        """
        self._first: float | None = None
        self._trials: deque[float] = deque(maxlen=LATEST)

    @property
    def trial(self) -> float:
        """Seconds of the slowest recent trial; before any, those of the start."""
        return max(tuple(self._trials), default=self.start)

    @property
    def cold(self) -> float:
        """Seconds of a trial with a cold cache: those of the first, or of a slower recent one."""
        return max(self._first or 0.0, self.trial)

    def ended(self, seconds: float, *, compiles: bool = True) -> None:
        """Record a trial that ended before its timeout; ``compiles``: it builds kernels."""
        self._trials.append(seconds)
        if compiles and self._first is None:
            self._first = seconds
