"""The lease of a running job: renewed by a thread in parallel to the engine, which it tells when to stop."""

from __future__ import annotations

import contextvars
import logging
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from minimizer.settings import Settings
from minimizer.store import Claim, LeaseLost, Store, Wish

log = logging.getLogger(__name__)

T = TypeVar("T")


class Lease:
    """Keeps a claim from the beginning to the end of a ``with`` block.

    ``stopping``: set once the worker is told to stop.
    """

    def __init__(self, store: Store, claim: Claim, settings: Settings, stopping: threading.Event) -> None:
        self._store = store
        self._claim = claim
        self._settings = settings
        self._stopping = stopping
        self._renewed = time.monotonic()
        self._done = threading.Event()
        self._lost = threading.Event()
        self._wish = Wish()
        # In a copy of our context: its logs belong to the same job.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=lambda: context.run(self._keep), name=f"lease-{claim.job_id}", daemon=True
        )

    def __enter__(self) -> Lease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def lost(self) -> bool:
        """Whether another worker may have the job by now; nothing more can be written about it."""
        return self._lost.is_set()

    @property
    def cancelled(self) -> bool:
        """Whether the owner of the job wants it to stop."""
        return self._wish.cancel

    @property
    def skipped(self) -> str | None:
        """The step that the owner of the job does not want to wait for."""
        return self._wish.skip

    def write(self, what: Callable[[], T]) -> T | None:
        """Write about the job: waits for an unavailable database, and does nothing once the lease is lost.

        It waits no longer than the lease lasts, also after the ``with`` block, where nothing renews it; nor longer than
        a lease once the worker is stopping. The job is then a reaper's.

        Returns the result of ``what``, None if nothing was done.
        """
        told = math.inf
        while not self.lost:
            try:
                return what()
            except LeaseLost:
                self._lost.set()
            except SQLAlchemyError:
                log.warning(
                    "job %s: the database cannot be written to, trying again", self._claim.job_id, exc_info=True
                )
                if self._stopping.is_set():
                    told = min(told, time.monotonic())
                if not self._lose_since(min(self._renewed, told)):
                    self._lost.wait(self._settings.heartbeat_seconds)
        return None

    def read(self, what: Callable[[], T]) -> T:
        """Read data that the job needs: waits for an unavailable database, as `write` does.

        Raises:
            LeaseLost: it was unavailable for too long, and another worker may have the job.
        """
        found = self.write(what)
        if found is None:
            raise LeaseLost(self._claim.job_id)
        return found

    def _keep(self) -> None:
        while not self._done.wait(self._settings.heartbeat_seconds) and not self.lost:
            try:
                self._wish = self._store.leases.heartbeat(self._claim, self._settings.lease_seconds)
                self._renewed = time.monotonic()
            except LeaseLost:
                log.warning("job %s: the lease was lost", self._claim.job_id)
                self._lost.set()
            except SQLAlchemyError:
                log.warning("job %s: no heartbeat, the database is away", self._claim.job_id, exc_info=True)
                self._lose_since(self._renewed)

    def _lose_since(self, moment: float) -> bool:
        """Give the lease up if it would have expired since then; returns whether that is so."""
        if time.monotonic() - moment <= self._settings.lease_seconds:
            return False
        log.warning("job %s: given up, since nothing can be written about it; a reaper has it", self._claim.job_id)
        self._lost.set()
        return True
