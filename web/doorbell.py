"""Tells the workers that a job waits. Only a hint: the database has the job, and the reaper rings again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from celery import Celery

from minimizer.broker import TASK, broker_config, queue_of
from minimizer.settings import Settings
from minimizer.store import Job

log = logging.getLogger(__name__)

Doorbell = Callable[[Job], None]


def celery_doorbell(settings: Settings) -> Doorbell:
    """A doorbell on the configured broker. It knows the task by name only, so the web side needs no worker code."""
    client = Celery("minimizer-web")
    client.conf.update(broker_config(settings))
    # A broker that is down takes seconds to say so. The request does not wait for it: its job is stored.
    ringer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="doorbell")

    def send(job: Job) -> None:
        try:
            client.send_task(TASK, args=[job.id], queue=queue_of(job.options), ignore_result=True, retry=False)
        except Exception as error:
            log.warning("the broker cannot be reached (%s); job %s waits until a worker looks for it", error, job.id)

    def ring(job: Job) -> None:
        ringer.submit(send, job)

    return ring
