"""How fast workers take jobs, with an engine that needs no torch, and what the service adds to a job.

python benchmarks/dispatch.py --database postgresql+psycopg://... --broker redis://127.0.0.1:6379/9
python benchmarks/dispatch.py                                      # SQLite, and a folder as the broker

The jobs are queued before the workers start. Throughput is counted from the first claim to the last end, with one worker
and with two, in turn, on databases of their own. Latency is measured on idle workers, one job after the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stage import Stage, stage

from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Job, Store
from minimizer.vocabulary import Status
from web.service.doorbell import celery_doorbell

JOBS, SINGLE = 60, 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="sqlite", help="sqlite, or the URL of a PostgreSQL server")
    parser.add_argument("--broker", help="the URL of a Redis database that may be emptied; default is a folder")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long a job takes (default 0.5)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(arguments.seconds)
    found: dict[str, Any] = {}
    for count in (1, 2):
        with stage(arguments.database, arguments.broker) as on:
            found[f"jobs_per_second_{count}"] = throughput(on, count, arguments.seconds)
    with stage(arguments.database, arguments.broker) as on:
        found["overhead_ms"] = overhead(on)
    found["two_against_one"] = round(found["jobs_per_second_2"] / found["jobs_per_second_1"], 2)
    print(json.dumps(found, indent=1))
    return 0


def worker(seconds: float) -> int:
    """A real worker process; only its engine does nothing, for so long."""
    from worker.__main__ import main as work

    def engine(
        script: Path, *, options: Options, settings: Settings, sink: Sink, python: Path | None, binds: Sequence[Path]
    ) -> Report:
        time.sleep(seconds)
        report = Report(status=Status.HEALTHY, summary="Nothing was run.")
        sink.report(report)
        return report

    return work(engine)


def throughput(on: Stage, count: int, seconds: float) -> float:
    """Jobs a second with so many workers."""
    store = Store.open(on.settings.resolved_database_url)
    ids = [submit(store, n).id for n in range(JOBS)]
    for _ in range(count):
        start_worker(on, seconds)
    until_workers(store, count)
    ring = celery_doorbell(on.settings)
    for job_id in ids:
        ring(store.jobs.get(job_id))
    jobs = [until_final(store, job_id) for job_id in ids]
    begun, ended = min(job.started_at for job in jobs), max(job.finished_at for job in jobs)  # type: ignore[type-var]
    store.close()
    return round(JOBS / (ended - begun).total_seconds(), 2)  # type: ignore[operator]


def overhead(on: Stage) -> dict[str, float]:
    """What passes between the submission and the claim, and between the end and its being seen, in milliseconds."""
    store = Store.open(on.settings.resolved_database_url)
    start_worker(on, 0.0)
    until_workers(store, 1)
    ring = celery_doorbell(on.settings)
    claimed, whole = [], []
    for n in range(SINGLE):
        begun = time.monotonic()
        job = submit(store, n)
        ring(job)
        job = until_final(store, job.id)
        whole.append(time.monotonic() - begun)
        assert job.started_at is not None
        claimed.append((job.started_at - job.created_at).total_seconds())
    store.close()
    return {
        "submitted to claimed": round(1000 * statistics.median(claimed), 1),
        "submitted to seen as finished": round(1000 * statistics.median(whole), 1),
    }


def start_worker(on: Stage, seconds: float) -> None:
    on.start(sys.executable, __file__, "--worker", "--seconds", str(seconds))


def submit(store: Store, number: int) -> Job:
    return store.submissions.submit(f"print({number})\n".encode(), "a.py", Options())[0]


def until_workers(store: Store, count: int) -> None:
    while len(store.workers.all()) < count:
        time.sleep(0.1)


def until_final(store: Store, job_id: str) -> Job:
    while not (job := store.jobs.get(job_id)).status.is_final:
        time.sleep(0.005)
    return job


if __name__ == "__main__":
    sys.exit(main())
