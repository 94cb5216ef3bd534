"""The engine's sink for a job of the service: everything goes to the database, under the job's lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from minimizer.report.model import Report
from minimizer.store import ArtifactTooLarge, Claim, Store, UnknownArtifact, UnknownJob
from worker.lease import Lease

# The search may take many steps a second; a reader cannot tell the difference.
_PROGRESS_SECONDS = 0.25


class DatabaseSink:
    """Writes the engine's results into the store, and passes stop requests of the owner or the worker to the engine.

    ``on_asked`` is called whenever the engine polls for them.
    """

    def __init__(
        self, store: Store, claim: Claim, lease: Lease, stopping: threading.Event, on_asked: Callable[[], None]
    ) -> None:
        self._store = store
        self._claim = claim
        self._lease = lease
        self._stopping = stopping
        self._on_asked = on_asked
        self._waiting: dict[str, Any] | None = None
        self._told = float("-inf")
        self.latest = Report()

    def event(self, type_: str, **data: Any) -> None:
        if type_ == "progress":
            self._waiting = data
            self._tell_progress_in_time()
            return
        self._tell_progress()  # first, so that the order of events holds
        self._record(type_, data)

    def artifact(self, name: str, content: bytes) -> None:
        try:
            self._lease.write(lambda: self._store.results.put_artifact(self._claim, name, content))
        except ArtifactTooLarge as error:
            self.event("note", message=f"{error}; run the script with `minimizer run` to get it")

    def discard(self, name: str) -> None:
        self._lease.write(lambda: self._store.results.discard_artifact(self._claim, name))

    def earlier(self, name: str) -> bytes | None:
        try:
            return self._store.results.artifact(self._claim.job_id, name)[1]
        except (UnknownArtifact, UnknownJob, SQLAlchemyError):  # then this attempt begins at the beginning
            return None

    def report(self, report: Report) -> None:
        self.latest = report
        self._lease.write(lambda: self._store.results.put_report(self._claim, report))

    def cancelled(self) -> bool:
        self._on_asked()
        self._tell_progress_in_time()  # the engine polls continuously, but its last progress may be minutes old
        return self._lease.cancelled or self._lease.lost or self._stopping.is_set()

    def skipped(self) -> str | None:
        return self._lease.skipped

    def _tell_progress_in_time(self) -> None:
        if time.monotonic() - self._told >= _PROGRESS_SECONDS:
            self._tell_progress()

    def _tell_progress(self) -> None:
        if (data := self._waiting) is not None:
            self._waiting = None
            self._told = time.monotonic()
            self._record("progress", data)

    def _record(self, type_: str, data: dict[str, Any]) -> None:
        self._lease.write(lambda: self._store.results.record_event(self._claim, type_, data))
