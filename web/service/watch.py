"""One thread per process that looks for changes, so that a hundred waiting clients cost one query per tick.

Waiting clients (long polls and event streams) name a job and the version that they know, and sleep on a condition. The
watcher reads the versions of exactly those jobs, and sleeps itself when nobody waits.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger(__name__)

# A deleted job has no version; this one wakes its waiters, which then notice.
_DELETED = -1

Versions = Callable[[Collection[str]], Mapping[str, int]]


class Watcher:
    """Wakes clients that wait for a job to change."""

    def __init__(self, versions: Versions, interval: float = 0.25) -> None:
        self._read_versions = versions
        self._interval = interval
        self._changed = threading.Condition()
        self._watched: Counter[str] = Counter()
        self._versions: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @contextmanager
    def watching(self, job_id: str) -> Iterator[None]:
        """Keep an eye on a job for as long as the block runs."""
        with self._changed:
            self._watched[job_id] += 1
            self._start()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._watched[job_id] -= 1
                if not self._watched[job_id]:
                    del self._watched[job_id]
                    self._versions.pop(job_id, None)

    def wait(self, job_id: str, version: int, timeout: float) -> bool:
        """Sleep until the job is newer than ``version``, within ``watching(job_id)``; whether it is."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing.is_set() or self._is_newer(job_id, version), timeout)
            return self._is_newer(job_id, version)

    def _is_newer(self, job_id: str, version: int) -> bool:
        # "Newer", not "other": the watcher's last version may be older than the one that the client has just read.
        seen = self._versions.get(job_id, version)
        return seen > version or seen == _DELETED

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Stop the thread and send everybody home."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        # On the first wait, not at start-up: gunicorn forks after the app was made, and threads do not survive that.
        if self._thread is None and not self._closing.is_set():
            self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._closing.is_set() or bool(self._watched))
                ids = list(self._watched)
            if ids:
                self._look(ids)
            self._closing.wait(self._interval)

    def _look(self, ids: list[str]) -> None:
        try:
            versions = self._read_versions(ids)
        except Exception:
            # An unavailable database must not end the thread: waiting clients run into their own timeouts.
            log.warning("cannot read job versions", exc_info=True)
            return
        with self._changed:
            seen = {job_id: versions.get(job_id, _DELETED) for job_id in ids if job_id in self._watched}
            if seen.items() <= self._versions.items():
                return  # hundreds of sleepers, woken four times a second for nothing, would keep everybody else waiting
            self._versions |= seen
            self._changed.notify_all()


class Slots:
    """A limited number of slots, at most ``most`` per user; nobody waits for one."""

    def __init__(self, size: int, most: int | None = None) -> None:
        self.size = size
        self._most = size if most is None else most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """Places that are not free."""
        return self._taken.total()

    def take(self, who: str = "") -> bool:
        """Take a slot for ``who``; returns whether there was one."""
        with self._lock:
            if self._taken.total() >= self.size or self._taken[who] >= self._most:
                return False
            self._taken[who] += 1
            return True

    def give_back(self, who: str = "") -> None:
        """Release a slot of ``who``."""
        with self._lock:
            self._taken[who] -= 1
            if not self._taken[who]:
                del self._taken[who]
