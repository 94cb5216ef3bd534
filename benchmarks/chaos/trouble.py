"""The trouble makers. Each waits for its moment in a job, strikes, puts back what is not the service's to put back, and says when."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from celery import Celery
from installation import LEASE_SECONDS, Installation, can_fill, until
from processes import sandboxed
from rounds import SEED, STEPS, Trouble
from sqlalchemy import create_engine, text

from minimizer.service.broker import broker_config, ring
from minimizer.store import Job
from minimizer.vocabulary import Step

JOB_SECONDS = 1800.0
"""How long a job may take between two troubles, on a busy machine."""
RECOVERY_SECONDS = 900.0
CLOCK_SECONDS = 3600.0
"""By which a clock jumps: many leases."""
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Struck:
    """What became of a trouble."""

    kind: str
    wanted: str
    step: str | None
    """At which the job was; ``None``: the job ended before there was anything to strike."""
    recovered: float | None = None
    """Seconds until the job was at work again, or the web server answered."""


def strike(trouble: Trouble, installation: Installation, job_id: str) -> Struck:
    """Wait for the trouble's moment, make it, and wait until the service has come over it."""
    store = installation.store
    deadline = time.monotonic() + JOB_SECONDS
    while True:
        job = store.jobs.get(job_id)
        if job.status.is_final or time.monotonic() > deadline:
            return Struck(trouble.kind, trouble.step, None)
        if _is_time(job, trouble.step) and (act := _act(trouble, installation, job)) is not None:
            if trouble.delay:
                time.sleep(trouble.delay)
                job = store.jobs.get(job_id)
                act = _act(trouble, installation, job) if _is_time(job, trouble.step) else None
            if act is not None:
                break
        time.sleep(_LOOK_SECONDS)
    version = job.version
    begun = time.monotonic()
    act()
    if trouble.kind == "web":
        until("the web server", installation.is_ready, RECOVERY_SECONDS)
    else:
        until("the job to go on", lambda: _goes_on(installation, job_id, version), RECOVERY_SECONDS)
    return Struck(trouble.kind, trouble.step, job.step, round(time.monotonic() - begun, 1))


def _is_time(job: Job, wanted: Step) -> bool:
    """Whether the job has come to the step, or past it, and has not ended."""
    return not job.status.is_final and job.step in STEPS and STEPS.index(Step(job.step)) >= STEPS.index(wanted)


def _goes_on(installation: Installation, job_id: str, version: int) -> bool:
    """Whether a worker has told something new of the job; that it waits again is not enough."""
    job = installation.store.jobs.get(job_id)
    return job.status.is_final or (job.version > version and job.step is not None)


def _act(trouble: Trouble, installation: Installation, job: Job) -> Callable[[], None] | None:
    """What is to be done, or ``None`` while there is nothing to do it to."""
    match trouble.kind:
        case "worker":
            return _signal(installation.worker_of(job), signal.SIGKILL)
        case "web":
            return _signal(installation.web, signal.SIGKILL)
        case "sandbox" | "child" | "trial":
            return _signal(_inside(trouble, installation, job), signal.SIGKILL)
        case "stopped":
            worker = installation.worker_of(job)
            return (lambda: _stand_still(worker)) if worker else None
        case "doubled":
            return lambda: _ring(installation, job)
        case "disk full":
            return (lambda: _fill_disk(installation)) if can_fill(installation.folder) else None
        case "restart":
            return installation.restart
        case "upgrade":
            return installation.upgrade if installation.earlier else None
        case "clock forth":
            return (lambda: installation.set_clock(CLOCK_SECONDS)) if installation.clock else None
        case "clock back":
            return (lambda: installation.set_clock(-CLOCK_SECONDS)) if installation.clock else None
        case "redis flushed":
            return lambda: _redis(installation).client.flushall()
        case "redis paused":
            return lambda: _redis(installation).client.client_pause(8000)
        case "redis gone":
            return lambda: _redis_goes(installation)
        case "postgres ended":
            return lambda: _end_back_ends(installation)
    raise ValueError(trouble.kind)


def _signal(pid: int | None, number: int) -> Callable[[], None] | None:
    def act() -> None:
        with suppress(ProcessLookupError):  # it was quicker
            os.kill(pid, number)  # type: ignore[arg-type]

    return act if pid else None


def _inside(trouble: Trouble, installation: Installation, job: Job) -> int | None:
    """A process in a sandbox of the worker that has the job."""
    worker = installation.worker_of(job)
    if worker is None:
        return None
    found = dict(zip(("sandbox", "child", "trial"), sandboxed(worker), strict=True))[trouble.kind]
    return random.Random(f"{SEED} {trouble}").choice(found).pid if found else None


def _stand_still(worker: int) -> None:
    os.kill(worker, signal.SIGSTOP)
    time.sleep(1.5 * LEASE_SECONDS)
    os.kill(worker, signal.SIGCONT)


def _ring(installation: Installation, job: Job) -> None:
    with Celery() as client:  # leaves no connection of ours behind, which would count as one of the service's
        client.conf.update(broker_config(installation.on.settings))
        for _ in range(20):
            ring(client, job)
        client.pool.force_close_all()


def _fill_disk(installation: Installation) -> None:
    filler = installation.folder / "filler"
    with filler.open("wb", buffering=0) as file:  # closing it writes nothing more
        with suppress(OSError):  # the services write meanwhile
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(installation.folder).free)
        with suppress(OSError):
            while True:
                file.write(bytes(4096))
    time.sleep(10)
    filler.unlink()


def _redis(installation: Installation):
    assert installation.broker is not None
    return installation.broker


def _redis_goes(installation: Installation) -> None:
    _redis(installation).kill()
    time.sleep(6)
    _redis(installation).start()


def _end_back_ends(installation: Installation) -> None:
    query = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid != pg_backend_pid()"
    )
    engine = create_engine(installation.on.settings.resolved_database_url)
    for _ in range(5):
        with engine.connect() as connection:
            connection.execute(text(query))
        time.sleep(0.4)
    engine.dispose()
