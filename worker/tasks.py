"""Jobs, from their claims to their ends. The Celery part is in `worker.app`."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from minimizer.engine.child.scratch_disk import Scratch
from minimizer.errors import InvalidOption, WorkerTrouble, is_of_the_machine
from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.sandbox import devices_for, refuse_exposed, why_no_bubblewrap
from minimizer.service import archive
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Claim, Job, Store
from minimizer.vocabulary import Reason, Status
from worker.fitness import Fitness
from worker.gpu import Turns
from worker.lease import Lease
from worker.sink import DatabaseSink
from worker.watchdog import Watchdog

log = logging.getLogger(__name__)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.py")


class Engine(Protocol):
    """The function that runs a job: `minimizer.engine.pipeline.minimize` except in tests."""

    def __call__(
        self,
        script: Path,
        *,
        options: Options,
        settings: Settings,
        sink: Sink,
        python: Path | None,
        binds: Sequence[Path],
    ) -> Report:
        """Minimize a script, write to the sink, and return the final report."""


def minimize(
    script: Path,
    *,
    options: Options,
    settings: Settings,
    sink: Sink,
    python: Path | None,
    binds: Sequence[Path],
) -> Report:
    """The engine of the product, imported when the first job needs it."""
    from minimizer.engine import pipeline

    return pipeline.minimize(script, options=options, settings=settings, sink=sink, python=python, binds=binds)


def take_jobs(
    store: Store,
    settings: Settings,
    *,
    worker: str,
    devices: Collection[str],
    stopping: threading.Event,
    engine: Engine = minimize,
    turns: Turns | None = None,
    fitness: Fitness | None = None,
) -> None:
    """Take one job after the other, in the store's order, until none is left that this worker can do.

    It takes none while its machine is unfit, and the other workers are told that jobs wait.

    When the worker is ``stopping``, it takes no more, and the running one goes back to the queue. A message that
    arrives twice, late, or for a deleted job finds nothing to do. Each job waits for its turn on the worker's GPUs, if
    it has any.
    """
    turns = turns or Turns.of(settings, ())
    while not stopping.is_set():
        if not _is_fit(store, settings, devices, fitness):
            return
        with turns.taken(stopping) as is_ours:
            # Asked anew, since the wait for the GPUs may have taken an hour.
            if not is_ours or not _is_fit(store, settings, devices, fitness):
                return
            claim = store.leases.claim(
                worker, lease_seconds=settings.lease_seconds, devices=devices, toolchains=settings.interpreters
            )
            if claim is None:
                return
            with structlog.contextvars.bound_contextvars(job=claim.job_id, project=claim.job.project):
                _run(store, settings, claim, stopping, engine)


def _is_fit(store: Store, settings: Settings, devices: Collection[str], fitness: Fitness | None) -> bool:
    """Whether this machine can do a job; if not, the other workers are told that jobs wait."""
    if fitness is None or not (trouble := fitness.trouble()):
        return True
    log.warning("this worker takes no jobs: %s", trouble)
    store.leases.pass_on(devices=devices, toolchains=settings.interpreters)
    return False


def _run(store: Store, settings: Settings, claim: Claim, stopping: threading.Event, engine: Engine) -> None:
    job_id = claim.job_id
    log.info("job %s: attempt %d", job_id, claim.job.attempt)
    with (
        Lease(store, claim, settings, stopping) as lease,
        Watchdog(job_id, claim.job.options.budget, lambda: lease.cancelled or lease.lost) as watchdog,
    ):
        sink = DatabaseSink(store, claim, lease, stopping, on_asked=watchdog.asked)
        report = _answer(store, settings, claim, lease, sink, engine)
    # After the last heartbeat: one that comes later than the end of the job would find the lease lost.
    if stopping.is_set() and not lease.cancelled and _was_cut_short(report):
        lease.write(lambda: store.leases.release(claim))
        what = "goes back to the queue"
    elif report.reason is Reason.WORKER_TROUBLE and lease.write(
        lambda: store.leases.hand_back(claim, settings.max_attempts)
    ):
        log.warning("job %s goes back to the queue, for another worker: %s", job_id, report.summary)
        return
    else:
        lease.write(lambda: store.results.finish(claim, report))
        what = f"is {report.status}"
    if lease.lost:
        log.warning("job %s is not this worker's any more", job_id)
    else:
        log.info("job %s %s", job_id, what)


def _answer(store: Store, settings: Settings, claim: Claim, lease: Lease, sink: DatabaseSink, engine: Engine) -> Report:
    """The engine's final report, even if the engine fails after it; without one, a report of the failure."""
    job = claim.job
    if settings.access == "on" or job.submitted_by:
        # Submitters are not always trusted by this machine, which may not know of access control itself.
        settings = settings.model_copy(update={"sandbox": "required"})
    try:
        if trouble := _why_not_here(settings, job.options):
            raise WorkerTrouble(trouble)
        with Scratch() as scratch:
            folder = scratch.path / "submitted"
            folder.mkdir()
            script = lease.read(lambda: _lay_out(store, job, folder))
            toolchain = job.options.toolchain
            python = None if toolchain is None else settings.interpreters[toolchain]
            binds = [folder]  # of an archive all files, wherever in it the main script is
            report = engine(script, options=job.options, settings=settings, sink=sink, python=python, binds=binds)
        if not report.status.is_final:
            raise RuntimeError(f"the engine returned a report that is {report.status}")
        return report
    except Exception as error:
        log.exception("job %s: the engine failed", job.id)
        what = f"{type(error).__name__}: {error}"
        if sink.latest.status.is_final:
            note = f"The report may lack something: the minimizer failed behind its verdict ({what})."
            return sink.latest.model_copy(update={"notes": [*sink.latest.notes, note]})
        if is_of_the_machine(error):
            reason, summary = Reason.WORKER_TROUBLE, f"The worker's machine could not do the job ({what})."
        else:
            reason = Reason.INTERNAL_ERROR
            summary = f"The minimizer itself failed ({what}). This is our fault, not the script's: please report it."
        ending = {"status": Status.FAILED, "reason": reason, "summary": summary}
        return sink.latest.model_copy(update=ending)  # with the findings so far


def _why_not_here(settings: Settings, options: Options) -> str:
    """What a claimed job needs and this machine lacks, but another may have; empty if nothing."""
    if settings.sandbox == "required" and (trouble := why_no_bubblewrap()):
        return f"the sandbox is required, but {trouble}"
    try:
        # Unchecked so far if the worker itself has the sandbox off.
        refuse_exposed(settings, (Path(sys.executable), *settings.interpreters.values()))
    except InvalidOption as error:
        return str(error)
    if options.device == "cuda" and not (devices := devices_for("cuda")).gpus:
        return f"there was a GPU when the worker started, and is none now ({devices.trouble or 'none is visible'})"
    return ""


def _lay_out(store: Store, job: Job, folder: Path) -> Path:
    """Write the submission into an empty folder, and return the path of the script in it."""
    if (packed := store.jobs.archive(job.id)) is not None:
        archive.unpack(packed, folder)
        return folder / job.filename
    script = folder / (job.filename if _PLAIN_NAME.fullmatch(job.filename) else "script.py")
    script.write_bytes(store.jobs.script(job.id))
    return script


def _was_cut_short(report: Report) -> bool:
    """Whether the worker's stop may have ended the job: the same signal may have reached the script's processes."""
    return report.status not in (Status.MINIMIZED, Status.HEALTHY)
