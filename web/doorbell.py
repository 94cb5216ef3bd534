"""Tells the workers that a job waits. Only a hint: the database has the job, and the reaper rings again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from celery import Celery

from minimizer.broker import TASK, broker_config
from minimizer.settings import Settings

log = logging.getLogger(__name__)

Doorbell = Callable[[str], None]


def celery_doorbell(settings: Settings) -> Doorbell:
    """A doorbell on the configured broker. It knows the task by name only, so the web side needs no worker code."""
    client = Celery("minimizer-web")
    client.conf.update(broker_config(settings))
    # A broker that is down takes seconds to say so. The request does not wait for it: its job is stored.
    ringer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="doorbell")

    def send(job_id: str) -> None:
        try:
            client.send_task(TASK, args=[job_id], ignore_result=True, retry=False)
        except Exception as error:
            log.warning("the broker cannot be reached (%s); job %s waits until a worker looks for it", error, job_id)

    def ring(job_id: str) -> None:
        ringer.submit(send, job_id)

    return ring
