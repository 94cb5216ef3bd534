"""The Celery side: the one task."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from celery import Celery

from minimizer.service.broker import TASK, broker_config
from minimizer.settings import Settings
from minimizer.store import Store
from worker.fitness import Fitness
from worker.gpu import Turns
from worker.tasks import Engine, minimize, take_jobs

log = logging.getLogger(__name__)


def create_app(
    settings: Settings,
    store: Store,
    worker: str,
    devices: Collection[str],
    stopping: threading.Event,
    engine: Engine = minimize,
    turns: Turns | None = None,
    fitness: Fitness | None = None,
) -> Celery:
    """A Celery app whose task runs jobs from the store that this worker can do."""
    app = Celery("minimizer-worker")
    app.conf.update(broker_config(settings))
    app.conf.update(
        # A message is acknowledged before its job runs: the jobs of a dead worker are found by their lease, not by
        # their message.
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        # Without late acknowledgement it cancels nothing; unset, Celery warns at every lost connection.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        # Nobody may stop or reconfigure workers by way of the broker.
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_consumer="worker.consumer:Consumer",
    )

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def run(job_id: str) -> None:
        log.debug("rung for job %s", job_id)
        take_jobs(
            store,
            settings,
            worker=worker,
            devices=devices,
            stopping=stopping,
            engine=engine,
            turns=turns,
            fitness=fitness,
        )

    return app
