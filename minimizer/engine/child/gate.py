"""A gate for runs on one machine: any number in parallel, or one alone that was short of GPU memory, or wants a port for itself.

Runs of the script go side by side if it takes little memory. That is known once an exact run has ended: before, there is no second one of these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_SECONDS = 0.2
LITTLE_BYTES = 512 << 20
"""Most that a run of the script takes, beyond what its process begins with, for another one to go beside it: two then take about as much
as one that compiles a kernel. A run of a larger model waits for the one before: together they would take twice what the script needs."""


class Gate:
    """A readers-writer lock: a waiting writer (`alone`) blocks new readers (`beside`). Thread-safe, not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._wanting_alone = 0
        self._scripts = 0
        """Number of runs of the script that are inside."""
        self._script_bytes: int | None = None
        """The most that a run of the script has taken; None if none has ended."""

    @contextmanager
    def beside(
        self, watch: Callable[[], None], *, is_script: bool = False, is_measured: bool = False
    ) -> Iterator[None]:
        """Enter together with others; ``watch`` is called while waiting, and its exceptions are raised here.

        ``is_script``: for a run of the script, which waits for others of these where they take much memory. ``is_measured``: for one
        whose end tells how much (`ended`), which waits where that is not known either.
        """
        with self._changed:
            while self._wanting_alone or (is_script and self._scripts and self._takes_much(is_measured)):
                self._changed.wait(POLL_SECONDS)
                watch()
            self._inside += 1
            self._scripts += is_script
        try:
            yield
        finally:
            with self._changed:
                self._scripts -= is_script
            self._leave()

    def ended(self, taken: int) -> None:
        """Learn what a run of the script took, in bytes beyond what its process began with."""
        with self._changed:
            self._script_bytes = max(taken, self._script_bytes or 0)
            self._changed.notify_all()

    def _takes_much(self, or_unknown: bool) -> bool:
        return or_unknown if self._script_bytes is None else self._script_bytes > LITTLE_BYTES

    @contextmanager
    def alone(self, watch: Callable[[], None]) -> Iterator[None]:
        """Enter alone, once all others have left; ``watch`` as in `beside`."""
        with self._changed:
            self._wanting_alone += 1
            try:
                while self._inside:
                    self._changed.wait(POLL_SECONDS)
                    watch()
            except BaseException:
                self._wanting_alone -= 1
                self._changed.notify_all()
                raise
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._wanting_alone -= 1
            self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()
