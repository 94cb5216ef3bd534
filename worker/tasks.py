"""One job, from its claim to its end. What Celery has to do with it is in `worker.app`."""

from __future__ import annotations

import logging
import re
import tempfile
import threading
from pathlib import Path
from typing import Protocol

from minimizer.errors import NotRunnable
from minimizer.options import Options
from minimizer.report import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Claim, Store
from minimizer.types import Reason, Status
from worker.lease import Lease
from worker.sink import DatabaseSink

log = logging.getLogger(__name__)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\.py")


class Engine(Protocol):
    """What runs a job; it is `minimizer.pipeline.minimize` everywhere but in tests."""

    def __call__(
        self, script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None
    ) -> Report:
        """Minimize a script, tell the sink, and return the final report."""


def minimize(script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None) -> Report:
    """The engine of the product, imported when the first job needs it."""
    from minimizer import pipeline

    return pipeline.minimize(script, options=options, settings=settings, sink=sink, python=python)


def run_job(
    store: Store,
    settings: Settings,
    job_id: str,
    *,
    worker: str,
    stopping: threading.Event,
    engine: Engine = minimize,
) -> None:
    """Run a job if it waits; a message that comes twice, late, or for a deleted job finds that it does not.

    When the worker is ``stopping``, it takes no job, and the running one goes back to the queue.
    """
    if stopping.is_set():
        return
    claim = store.claim_job(job_id, worker, lease_seconds=settings.lease_seconds)
    if claim is None:
        log.info("job %s does not wait for a worker", job_id)
        return
    log.info("job %s: attempt %d", job_id, claim.job.attempt)
    with Lease(store, claim, settings) as lease:
        sink = DatabaseSink(store, claim, lease, stopping)
        report = _answer(store, settings, claim, sink, engine)
    # After the last heartbeat: one that comes later than the end of the job would find the lease lost.
    if stopping.is_set() and not lease.cancelled and _was_cut_short(report):
        lease.write(lambda: store.release(claim))
        log.info("job %s goes back to the queue", job_id)
    else:
        lease.write(lambda: store.finish(claim, report))
        log.info("job %s is %s", job_id, report.status)


def _answer(store: Store, settings: Settings, claim: Claim, sink: DatabaseSink, engine: Engine) -> Report:
    """The engine's final report, or one that says why there is none."""
    job = claim.job
    try:
        with tempfile.TemporaryDirectory(prefix="minimizer-job-") as folder:
            script = Path(folder, job.filename if _PLAIN_NAME.fullmatch(job.filename) else "script.py")
            script.write_bytes(store.script(job.id))
            python = _interpreter(settings, job.options.toolchain)
            report = engine(script, options=job.options, settings=settings, sink=sink, python=python)
        if not report.status.is_final:
            raise RuntimeError(f"the engine returned a report that is {report.status}")
        return report
    except NotRunnable as error:
        return _failed(sink.latest, error.reason, str(error))
    except Exception as error:
        log.exception("job %s: the engine failed", job.id)
        what = f"{type(error).__name__}: {error}"
        return _failed(
            sink.latest,
            Reason.INTERNAL_ERROR,
            f"The minimizer itself failed ({what}). This is our fault, not the script's: please report it.",
        )


def _was_cut_short(report: Report) -> bool:
    return report.status is Status.CANCELLED or report.reason is Reason.INTERNAL_ERROR


def _failed(found: Report, reason: Reason, summary: str) -> Report:
    """What was found so far, with an ending."""
    return found.model_copy(update={"status": Status.FAILED, "reason": reason, "summary": summary})


def _interpreter(settings: Settings, toolchain: str | None) -> Path | None:
    if toolchain is None:
        return None
    known = dict(part.strip().split("=", 1) for part in settings.toolchains.split(",") if "=" in part)
    if toolchain not in known:
        raise NotRunnable(
            Reason.NOT_RUNNABLE,
            f"This worker has no Python interpreter called {toolchain!r}: add it to MINIMIZER_TOOLCHAINS and retry.",
        )
    return Path(known[toolchain])
