"""Tells the workers that a job waits. Only a hint: the database has the job, and the reaper rings again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from celery import Celery

from minimizer.service.broker import broker_config, ring
from minimizer.settings import Settings
from minimizer.store import Job

Doorbell = Callable[[Job], None]


def celery_doorbell(settings: Settings) -> Doorbell:
    """A doorbell on the configured broker. It knows the task by name only, so the web side needs no worker code."""
    client = Celery("minimizer-web")
    client.conf.update(broker_config(settings))
    # A broken broker takes seconds to fail. The request does not wait for it: its job is stored.
    ringer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="doorbell")

    def doorbell(job: Job) -> None:
        ringer.submit(ring, client, job)

    return doorbell
