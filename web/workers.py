"""Workers and queues: the page of the workers, and the queues as shown by REST and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from flask import Blueprint, render_template

from minimizer.store import SILENCE, Job, Store, WorkerRow, can_take
from web.service import service

worker_pages = Blueprint("worker_pages", __name__)


@dataclass(frozen=True)
class Queue:
    """The jobs that wait for the same device and interpreter; ``None`` if any worker will do."""

    device: str | None
    toolchain: str | None
    jobs: int
    oldest: datetime | None
    """Since when the first of them waits."""
    workers: int
    """How many that are alive can take them."""


def is_alive(worker: WorkerRow) -> bool:
    """Whether a worker was seen lately."""
    return worker.last_seen > datetime.now(UTC) - SILENCE


def queues(store: Store, workers: Sequence[WorkerRow]) -> list[Queue]:
    """Every queue that holds a job or that a worker listens to: a queue does not go when its last job does."""
    alive = [worker for worker in workers if is_alive(worker)]
    waiting = {(one.device, one.toolchain): one for one in store.workers.waiting()}
    needs: set[tuple[str | None, str | None]] = {(None, None), *waiting}
    for worker in alive:
        needs |= {(device, tool) for device in (None, *worker.devices) for tool in (None, *worker.toolchains)}
    found = []
    fit = [worker for worker in alive if not worker.trouble]
    for device, toolchain in sorted(needs, key=lambda need: (need[0] or "", need[1] or "")):
        here = waiting.get((device, toolchain))
        able = [worker for worker in fit if can_take(worker.devices, worker.toolchains, (device, toolchain))]
        found.append(
            Queue(device, toolchain, here.jobs if here else 0, here.oldest if here else None, workers=len(able))
        )
    return found


@worker_pages.get("/workers")
def page() -> str:
    store = service().store
    workers = store.workers.all()
    waiting = queues(store, workers)
    return render_template(
        "workers.html",
        workers=workers,
        alive=[worker for worker in workers if is_alive(worker)],
        is_alive=is_alive,
        queues=waiting,
        jobs=sum(queue.jobs for queue in waiting),
        oldest=min((queue.oldest for queue in waiting if queue.oldest), default=None),
    )


def may_start(job: Job, workers: Sequence[WorkerRow]) -> bool:
    """Whether one of them is alive and can take the job."""
    needs = job.options.needs
    return any(
        is_alive(worker) and not worker.trouble and can_take(worker.devices, worker.toolchains, needs)
        for worker in workers
    )
