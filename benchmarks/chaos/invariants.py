"""What must hold after every round, whatever was done."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator

from installation import Installation
from processes import below, bury, sandboxed
from rounds import VERDICT
from sqlalchemy import create_engine, text

from minimizer.report.model import Report
from minimizer.store import Job

SETTLE_SECONDS = 20.0
"""For what ends by itself a moment after the job: processes that are being killed, messages of a job that is over."""


OTHERS = text(
    "SELECT coalesce(state, 'starting') || ' since ' || backend_start || ', last: ' || query "
    "FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"
)
"""Connections to a PostgreSQL database that are not one's own."""


def broken_while_running(installation: Installation, job_id: str) -> list[str]:
    """What does not hold, asked while the service still runs and has nothing to do."""
    return [
        *_verdict(installation.store.jobs.get(job_id), installation.store.results.report(job_id)),
        *_ends(installation, job_id),
        *_settled(lambda: _sandboxes(installation)),
        *_settled(lambda: [] if installation.is_ready() else ["the web server is not ready"]),
    ]


def broken_afterwards(installation: Installation, job_id: str) -> list[str]:
    """What does not hold, asked after the service was told to end and did."""
    bury(installation.known)
    return [
        *_processes(installation),
        *(f"left in the folder of scratch: {path.name}" for path in installation.scratch.iterdir()),
        *_connections(installation),
        *_secrets(installation, job_id),
    ]


def _verdict(job: Job, report: Report | None) -> Iterator[str]:
    if not job.status.is_final:
        yield f"the job did not end: it is {job.status}, at {job.step}, attempt {job.attempt}"
        return
    kind, stage = (job.failure.kind, job.failure.stage) if job.failure else (None, None)
    found = (job.status, job.reason, kind, stage, tuple(job.culprit.ops) if job.culprit else ())
    if found != VERDICT:
        yield f"it ended otherwise than its script would: {found}, {job.summary}"
    if report is None or (report.status, report.reason) != (job.status, job.reason):
        yield "the report does not say what the job says"


def _ends(installation: Installation, job_id: str) -> Iterator[str]:
    """A message for a webhook is written in the transaction that ends a job."""
    told = [one for one in installation.store.webhooks.deliveries(installation.webhook) if one.job_id == job_id]
    if len(told) != 1:
        yield f"the job ended {len(told)} times"


def _settled(look) -> list[str]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := look()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return list(found)


def _sandboxes(installation: Installation) -> list[str]:
    return [
        f"in a sandbox after the job's end: {process.name}"
        for worker in installation.workers
        for some in sandboxed(worker)
        for process in some
    ]


def _processes(installation: Installation) -> list[str]:
    expected = installation.known | installation.before
    return _settled(
        lambda: [
            f"a process was left: {process.name} {process.command[:200]!r}"
            for process in below(os.getpid())
            if process.pid not in expected
        ]
    )


def _connections(installation: Installation) -> Iterator[str]:
    if installation.broker:
        yield from (f"connected to Redis: {one}" for one in installation.broker.connections())
    # Without transactions: within one PostgreSQL shows its connections as they were at its first look.
    engine = create_engine(installation.on.settings.resolved_database_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            said = connection.execute(text("PRAGMA integrity_check")).scalar_one()
            if said != "ok":
                yield f"the database is damaged: {said}"
        else:
            installation.store.close()  # ours; its process on the server takes a moment to end
            yield from _settled(
                lambda: [f"connected to PostgreSQL: {one}" for one in connection.execute(OTHERS).scalars()]
            )
    engine.dispose()


def _secrets(installation: Installation, job_id: str) -> Iterator[str]:
    """Searched: all logs, and the events, the report and every file of the job."""
    store = installation.store
    report = store.results.report(job_id)
    told = [installation.logs(), report.model_dump_json() if report else ""]
    told += [json.dumps(event.data) for event in store.results.events(job_id, limit=10_000)]
    told += [
        store.results.artifact(job_id, one.name)[1].decode(errors="replace") for one in store.results.artifacts(job_id)
    ]
    for what, secret in installation.planted.items():
        if any(secret in text for text in told):
            yield f"told: the {what}"
