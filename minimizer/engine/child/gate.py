"""A gate for runs on one machine: any number in parallel, or one alone that was short of GPU memory, or wants a port for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_SECONDS = 0.2


class Gate:
    """A readers-writer lock: a waiting writer (`alone`) blocks new readers (`beside`). Thread-safe, not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._wanting_alone = 0

    @contextmanager
    def beside(self, watch: Callable[[], None]) -> Iterator[None]:
        """Enter together with others; ``watch`` is called while waiting, and its exceptions are raised here."""
        with self._changed:
            while self._wanting_alone:
                self._changed.wait(POLL_SECONDS)
                watch()
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

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
