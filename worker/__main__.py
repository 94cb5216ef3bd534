"""``python -m worker``: one worker process, until it is stopped.

On SIGTERM or SIGINT the running job goes back to the queue and the process ends. ``python -m worker FD`` does the same
when the pipe that FD reads comes to its end: `minimizer serve` holds the other end, and cannot say goodbye when it is
killed.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import signal
import socket
import sys
import threading
import types
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from celery.exceptions import SecurityWarning
from celery.signals import worker_shutting_down
from celery.worker import state
from sqlalchemy.exc import SQLAlchemyError

from minimizer.errors import UserError
from minimizer.sandbox import refuse_exposed
from minimizer.service import logs
from minimizer.service.broker import queue_names, ring
from minimizer.settings import Settings, settings_from_environment
from minimizer.store import Job, Store
from minimizer.store.tables.migrate import require_current
from worker.app import create_app
from worker.courier import Courier
from worker.fitness import Fitness
from worker.gpu import OwnGpus, Turns, look
from worker.reaper import Reaper
from worker.tasks import Engine, minimize

log = logging.getLogger("worker")


def main(engine: Engine = minimize) -> int:
    """Run a worker with the settings of the environment; returns the exit status."""
    try:
        settings = settings_from_environment()
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    logs.configure(settings)
    for chatty in ("celery.app.trace", "celery.worker.strategy"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        refuse_exposed(settings, (Path(sys.executable), *settings.interpreters.values()))
        require_current(settings.resolved_database_url)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    gpus = look()
    if gpus.trouble:
        log.warning("this worker takes no job that needs a GPU: %s", gpus.trouble)
    try:
        turns = Turns.of(settings, gpus.gpus)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    store = Store.open(settings.resolved_database_url)
    try:
        return serve(settings, store, engine, gpus, turns)
    finally:
        store.close()


def serve(settings: Settings, store: Store, engine: Engine, gpus: OwnGpus, turns: Turns) -> int:
    """Take jobs until a signal stops the worker."""
    name = f"{socket.gethostname()}-{os.getpid()}"
    stopping = threading.Event()
    devices = gpus.devices
    fitness = Fitness.of(settings, gpus.gpus if devices else ())
    app = create_app(settings, store, name, devices, stopping, engine, turns, fitness)

    # Celery's handler of SIGTERM sends this in the main thread, in the middle of the running job. Solo runs the job in this
    # very process, so that the engine's next look at its sink sees the flag.
    def stop(**_: Any) -> None:
        stopping.set()

    worker_shutting_down.connect(stop)
    bell = partial(ring, app)
    register = partial(
        store.workers.register,
        name,
        device=", ".join(devices) or "cpu",
        torch=gpus.torch.torch or _torch_version(),
        hardware=gpus.hardware,
        toolchains=settings.interpreters,
    )
    if os.geteuid() == 0:
        # Celery's own message names an option of its command line, which is not in use here.
        warnings.filterwarnings("ignore", r"You're running the worker with superuser privileges", SecurityWarning)
        log.warning("this worker runs as root, which it does not need: start it as an ordinary user")
    # Until Celery has its own handler: a worker that signed on must sign off, however early the signal comes.
    signal.signal(signal.SIGTERM, leave)
    threads: list[threading.Thread] = []
    try:
        register()
        threads += [
            Reaper(
                store, settings, name, register=register, ring=bell, stopping=stopping, trouble=fitness.trouble
            ).start(),
            Courier(store, settings.reap_seconds, stopping).start(),
        ]
        worker = app.Worker(
            hostname=name,
            queues=queue_names(devices, settings.interpreters),
            pool="solo",
            concurrency=1,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            quiet=True,
            loglevel="INFO",
        )
        log.info("worker %s takes jobs", name)
        worker.start()
        # Celery calls Ctrl-C a failure even when everything ends in order.
        status = 0 if stopping.is_set() else int(worker.exitcode or 0)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        sign_off(store, name, bell)
    return status


def leave(number: int, frame: types.FrameType | None) -> NoReturn:
    """Handler of SIGTERM: end the process, at the latest when Celery begins to wait for messages.

    The exception is lost if the signal interrupts a finalizer.
    """
    state.should_stop = 0  # the exit status
    sys.exit(0)


def sign_off(store: Store, name: str, ring: Callable[[Job], None]) -> None:
    """Remove the worker's row, and ring for waiting jobs, if the database accepts writes."""
    try:
        store.workers.remove(name)
        # Messages that we took while stopping are gone; without this their jobs wait for another worker's reaper.
        for job in store.leases.stale_queued(older_than=0):
            ring(job)
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).partition("\n")[0]
        log.warning("worker %s has not signed off, and counts as gone a minute from now: %s", name, said)


def end_with(lifeline: int) -> None:
    """Send this process SIGTERM at the end of the pipe."""

    def wait(main_thread: int) -> None:
        while os.read(lifeline, 1):
            pass
        log.warning("the service of this worker has died")
        # To the main thread, whatever it waits for: a signal that another thread takes does not wake it.
        signal.pthread_kill(main_thread, signal.SIGTERM)

    threading.Thread(target=wait, args=[threading.get_ident()], name="lifeline", daemon=True).start()


def _torch_version() -> str:
    # From the metadata: this process must never import torch.
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        end_with(int(sys.argv[1]))
    sys.exit(main())
