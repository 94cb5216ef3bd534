"""The threads of a script, each a lane with its own numbering that does not depend on how threads interleave.

A lane is a thread that the script starts, or a task that it submits to a `ThreadPoolExecutor`, whichever of its threads
runs it. Its number is derived from the lane that started it and that lane's number of earlier starts: 2 is the second
lane started by the main thread, 20001 the first started by lane 2. Calls and units of a lane are numbered from ``number
* PER_LANE`` on.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

PER_LANE = 1_000_000
"""Most numbered calls and units of one lane."""
PER_PARENT = 10_000
"""Most lanes started by one lane; further ones are not observed."""
MOST = PER_PARENT**2
"""Most lane numbers: threads nested deeper than two levels below the main thread's have none."""


class Lane:
    """The state of one thread or task; ``number`` is 0 for the main thread.

    ``order`` sorts its looks among those of all lanes: after the look of the lane that started it, before that lane's
    next.
    """

    def __init__(self, number: int, order: tuple[int, ...]) -> None:
        self.number, self._order = number, order
        self.units = self.calls = self.backwards = 0
        self.depth = 0
        """Nesting depth of compiled calls."""
        self.in_backward = 0
        """Nesting depth of backwards."""
        self._looks = self._children = 0

    def numbered(self, count: int) -> int:
        """The number of a call, a backward or a unit, unique among all lanes."""
        return self.number * PER_LANE + count

    def order(self) -> tuple[int, ...]:
        """The sort key of the next look."""
        self._looks += 1
        return *self._order, self._looks

    def child(self) -> Lane | None:
        """The next lane started by this one; None if there is no number for it."""
        self._children += 1
        number = self.number * PER_PARENT + self._children
        if self._children >= PER_PARENT or number >= MOST:
            return None
        return Lane(number, (*self._order, self._looks, self._children))


class Lanes:
    """Follows the threads and tasks that the script starts, for the rest of this process."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._here.lane = Lane(0, ())
        self._started: dict[int, tuple[weakref.ref[threading.Thread], Lane | None]] = {}
        self._watch_threads()
        self._watch_tasks()

    def current(self) -> Lane | None:
        """The lane of the current thread; None if the script did not start it."""
        if not hasattr(self._here, "lane"):
            thread = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
            known, lane = self._started.pop(id(thread), (None, None))
            self._here.lane = lane if known is not None and known() is thread else None
        lane_: Lane | None = self._here.lane
        return lane_

    def _child(self) -> Lane | None:
        lane = self.current()
        return lane.child() if lane is not None else None

    def _watch_threads(self) -> None:
        kind: Any = threading.Thread
        original = kind.start

        @functools.wraps(original)
        def start(thread: threading.Thread) -> None:
            if not getattr(self._here, "is_submitting", False):
                self._started[id(thread)] = weakref.ref(thread), self._child()
            original(thread)

        kind.start = start

    def _watch_tasks(self) -> None:
        pool: Any = concurrent.futures.ThreadPoolExecutor
        original = pool.submit

        @functools.wraps(original)
        def submit(this: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            self._here.is_submitting = True  # the pool's own threads have no lane: which of them runs a task is chance
            try:
                return original(this, self._within(self._child(), fn), *args, **kwargs)
            finally:
                self._here.is_submitting = False

        pool.submit = submit

    def _within(self, lane: Lane | None, fn: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            before = self.current()
            self._here.lane = lane
            try:
                return fn(*args, **kwargs)
            finally:
                self._here.lane = before

        return run
