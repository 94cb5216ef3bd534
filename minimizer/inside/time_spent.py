"""Measures the time that blocks of code take together."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator


class TimeSpent:
    """Seconds spent inside of blocks so far. Time that blocks share, nested or on several threads, counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Of the blocks that have ended, and that no block is open around any more."""
        self._lock = threading.Lock()
        self._open = 0
        self._begun = 0.0

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time inside."""
        with self._lock:
            if not self._open:
                self._begun = time.monotonic()
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1
                if not self._open:
                    self.seconds += time.monotonic() - self._begun
