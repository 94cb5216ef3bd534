"""What the views need, in one object: settings, store, doorbell, and the waiting room."""

from __future__ import annotations

from dataclasses import dataclass

from flask import current_app

from minimizer.settings import Settings
from minimizer.store import Job, Store
from web.doorbell import Doorbell
from web.story import Stories
from web.submission import Submission
from web.watch import Slots, Watcher

# Threads that stay free for short requests, whatever waits.
_SPARE_THREADS = 4


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

    @classmethod
    def create(cls, settings: Settings, store: Store, ring: Doorbell) -> Service:
        streams = min(settings.event_streams, max(1, settings.web_threads // 2 - 1))
        polls = max(1, settings.web_threads - streams - _SPARE_THREADS)
        return cls(settings, store, ring, Watcher(store.versions), Slots(streams), Slots(polls), Stories())

    def submit(self, submission: Submission, idempotency_key: str | None = None) -> Job:
        """Store a job, then ring; in this order, so that no worker looks for a job that is not there yet."""
        job, created = self.store.submit(
            submission.script, submission.filename, submission.options, idempotency_key=idempotency_key
        )
        if created:
            self.ring(job.id)
        return job

    def retry(self, job_id: str) -> Job:
        """Queue a job again and ring for it."""
        job = self.store.retry(job_id)
        self.ring(job.id)
        return job

    def close(self) -> None:
        """Stop the threads of this application."""
        self.watcher.close()


def service() -> Service:
    """The service of the application that handles this request."""
    found = current_app.extensions["minimizer"]
    assert isinstance(found, Service)
    return found
