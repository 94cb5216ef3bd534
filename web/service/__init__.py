"""The views' dependencies in one object: settings, store, doorbell, and the waiting room."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from flask import current_app

from minimizer.settings import Settings
from minimizer.store import Job, NewJob, Store, Submitter
from minimizer.store.groups import Projects
from web.job_page.story import Stories
from web.problems import Problem
from web.service.doorbell import Doorbell
from web.service.watch import Slots, Watcher
from web.submission import Submission

# Threads that stay free for short requests, whatever waits.
_SPARE_THREADS = 4
READY_SECONDS = 2.0
"""How long an answer about the database holds."""


class InFlight:
    """The idempotency keys that this process is working on.

    Between processes the database decides: the second request waits for the first there, and gets its job.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: set[tuple[str, str, str]] = set()

    @contextmanager
    def only_one(self, key: tuple[str, str, str] | None) -> Iterator[None]:
        """Hold a key inside the block.

        Raises:
            Problem: 409, another request holds it.
        """
        if key is None:
            yield
            return
        with self._lock:
            if key in self._keys:
                raise Problem(
                    409,
                    "in-flight",
                    "A request with this Idempotency-Key is being worked on. Ask again when it was answered.",
                    {"Retry-After": "1"},
                )
            self._keys.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._keys.discard(key)


class Readiness:
    """Whether the database can be written to. An answer holds for a moment: everybody may ask, and each look is a write."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._trouble: Exception | None = None

    def check(self) -> None:
        """Raise the database's exceptions."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._trouble = None
                try:
                    self._look()
                except Exception as error:
                    self._trouble = error
                self._until = time.monotonic() + READY_SECONDS
            if self._trouble is not None:
                raise self._trouble.with_traceback(None)


@dataclass(frozen=True)
class Service:
    """One per application, kept in ``app.extensions``."""

    settings: Settings
    store: Store
    ring: Doorbell
    watcher: Watcher
    streams: Slots
    polls: Slots
    stories: Stories
    in_flight: InFlight
    readiness: Readiness

    @classmethod
    def create(cls, settings: Settings, store: Store, ring: Doorbell) -> Service:
        streams = min(settings.event_streams, max(1, settings.web_threads // 2 - 1))
        polls = max(1, settings.web_threads - streams - _SPARE_THREADS)
        # Without access control there is one user, who owns them all.
        for_one = max(1, streams // 2) if settings.access == "on" else streams
        return cls(
            settings,
            store,
            ring,
            Watcher(store.jobs.versions),
            Slots(streams, most=for_one),
            Slots(polls),
            Stories(),
            InFlight(),
            Readiness(store.ping),
        )

    def submit(
        self,
        submissions: Sequence[Submission],
        project: str,
        by: Submitter,
        *,
        idempotency_key: str | None = None,
        force: bool = False,
    ) -> list[tuple[Job, bool]]:
        """Store jobs, then ring; in this order, so that no worker looks for a job that is not there yet.

        Raises:
            Problem: 409, a request under this key is being worked on.
        """
        with self.in_flight.only_one(None if idempotency_key is None else (project, by.name, idempotency_key)):
            jobs = [_new_job(one) for one in submissions]
            answers = self.store.submissions.submit_many(jobs, idempotency_key, project=project, by=by, force=force)
            for job, created in answers:
                if created:
                    self.ring(job)
            return answers

    def retest(self, failure: str, submission: Submission, by: Submitter, actor: str, projects: Projects) -> Job:
        """Store a job that retests a group of failures, then ring."""
        job = self.store.groups.retest(failure, _new_job(submission), by, actor, projects)
        self.ring(job)
        return job

    def retry(self, job_id: str, budget: int | None = None) -> Job:
        """Queue a job again and ring for it."""
        limit = self.settings.max_open_jobs if self.settings.access == "on" else None
        job = self.store.submissions.retry(job_id, budget, max_open_jobs=limit)
        self.ring(job)
        return job

    def close(self) -> None:
        """Stop the threads of this application."""
        self.watcher.close()


def _new_job(one: Submission) -> NewJob:
    return NewJob(one.script, one.filename, one.options, one.archive, one.priority)


def service() -> Service:
    """The service of the application that handles this request."""
    found = current_app.extensions["minimizer"]
    assert isinstance(found, Service)
    return found
