"""The thread that cleans up after brokers and dead workers. Every worker has one; one would be enough."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from minimizer.settings import Settings
from minimizer.store import Job, Store

log = logging.getLogger(__name__)


_RETIRE_SECONDS = 60.0
_COLLECT_SECONDS = 3600.0


class Reaper:
    """Reports that this worker is alive, requeues jobs of silent workers, rings for jobs without a message, and
    deletes.

    It deletes old data, and data without an owner.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        worker: str,
        *,
        register: Callable[[], None],
        ring: Callable[[Job], None],
        stopping: threading.Event,
        trouble: Callable[[], str] = str,
    ) -> None:
        self._store = store
        self._settings = settings
        self._worker = worker
        self._register = register
        self._ring = ring
        self._stopping = stopping
        self._trouble = trouble
        self._retire_at = self._collect_at = time.monotonic()

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="reaper", daemon=True)
        thread.start()
        return thread

    def sweep(self) -> None:
        """One round."""
        trouble = self._trouble()
        if not self._store.workers.seen(self._worker, trouble):
            self._register()
        expired = self._store.leases.requeue_expired(self._settings.max_attempts)
        for job in expired:
            log.warning("job %s: its worker fell silent, it waits again", job.id)
        # A worker that takes no jobs would hear the bell itself, and no other would.
        stale = [] if trouble else self._store.leases.stale_queued(self._settings.lease_seconds, self._worker)
        for job in [*expired, *stale]:
            self._ring(job)
        if time.monotonic() >= self._retire_at:
            self._retire_at = time.monotonic() + _RETIRE_SECONDS
            for job_id in self._store.projects.retire():
                log.info("job %s was deleted: its project does not keep it any longer", job_id)
        if time.monotonic() >= self._collect_at:
            self._collect_at = time.monotonic() + _COLLECT_SECONDS
            if count := self._store.projects.collect_garbage():
                log.info("%d scripts or files that no job has any more were deleted", count)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.sweep()
            except Exception:
                # Whatever it is (most likely the database is away), the next round must come.
                log.warning("this round of the reaper failed", exc_info=True)
            behind = _behind()
            self._stopping.wait(self._settings.reap_seconds)
            # Where the machine slept, all leases of its workers have run out, and none of them has fallen silent. The
            # next round comes after their heartbeats.
            while _behind() - behind > self._settings.lease_seconds / 2 and not self._stopping.is_set():
                behind = _behind()
                self._stopping.wait(2 * self._settings.heartbeat_seconds)


def _behind() -> float:
    """Seconds by which the monotonic clock, which stops while a machine sleeps, is behind the wall clock."""
    return time.time() - time.monotonic()
