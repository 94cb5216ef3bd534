"""A whole service without the web: a database, a broker, and worker processes that a test may start, freeze and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from checkout import ROOT
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from minimizer.options import Options
from minimizer.service.broker import TASK, broker_config
from minimizer.settings import Settings
from minimizer.store import Job, Store
from minimizer.store.tables.models import JobRow
from minimizer.vocabulary import Status

PATIENCE_SECONDS = 90


def until(what: str, holds: Callable[[], bool]) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"still waiting for: {what}"
        time.sleep(0.02)


class Service:
    """What a test does to the service. Nothing expires by itself: the lease is long, and tests end it by hand."""

    def __init__(self, folder: Path, database_url: str, broker_url: str) -> None:
        self.folder = folder
        self.settings = Settings(
            data_dir=folder / "data",
            database_url=database_url,
            broker_url=broker_url,
            lease_seconds=1000,
            heartbeat_seconds=0.1,
            reap_seconds=0.1,
            max_attempts=2,
        )
        self.store = Store.open(database_url)
        self.client = Celery("test")
        self.client.conf.update(broker_config(self.settings))
        self._workers: list[subprocess.Popen[bytes]] = []

    def submit(self, script: str, **options: Any) -> Job:
        return self.store.submissions.submit(f"{script}\n".encode(), "a.py", Options(**options))[0]

    def ring(self, job_id: str, times: int = 1) -> None:
        for _ in range(times):
            self.client.send_task(TASK, args=[job_id], ignore_result=True)

    def start_worker(self, *options: str, **constants: float) -> subprocess.Popen[bytes]:
        """``options`` are those of ``fake_worker.py``, ``constants`` those of `worker.watchdog`."""
        settings = self.settings.model_dump(mode="json", exclude_none=True)
        environment = {f"MINIMIZER_{name.upper()}": str(value) for name, value in settings.items()}
        command = [sys.executable, str(Path(__file__).with_name("fake_worker.py")), str(self.folder)]
        command += [*options, *(f"{name}={seconds}" for name, seconds in constants.items())]
        with (self.folder / f"worker-{len(self._workers)}.log").open("wb") as log:
            worker = subprocess.Popen(
                command, env={**os.environ, **environment, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
            )
        self._workers.append(worker)
        return worker

    def runs(self) -> list[tuple[int, str]]:
        """Which process has begun to run which script, in order."""
        file = self.folder / "runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(pid), script) for pid, _, script in (line.partition(" ") for line in lines)]

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        until(what, holds)

    def until_runs(self, count: int) -> None:
        until(f"{count} runs", lambda: len(self.runs()) >= count)

    def until_status(self, job: Job, status: Status) -> Job:
        until(f"{job.id} {status}", lambda: self.store.jobs.get(job.id).status is status)
        return self.store.jobs.get(job.id)

    def until_no_message_waits(self) -> None:
        with self.client.connection_for_read() as connection:
            channel = connection.default_channel
            until("an empty queue", lambda: channel.queue_declare("minimizer").message_count == 0)

    def go(self) -> None:
        """Let jobs that hold go on."""
        (self.folder / "go").touch()

    def let_lease_expire(self, job: Job) -> None:
        self._age(job, lease_until=-1)

    def let_bell_grow_old(self, job: Job) -> None:
        self._age(job, rung_at=-2 * self.settings.lease_seconds)

    def freeze(self, worker: subprocess.Popen[bytes], job: Job) -> None:
        """Stop the process of a worker and let its lease run out."""
        while True:
            worker.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
            try:
                self._age(job, nowait=True, lease_until=-1)
            except OperationalError:  # frozen in the middle of a write, it would lock all others out for good
                worker.send_signal(signal.SIGCONT)
                self._age(job)  # waits for the end of that write
            else:
                return

    def _age(self, job: Job, nowait: bool = False, **seconds: float) -> None:
        with self.store._database.write() as session:
            row = session.scalars(select(JobRow).where(JobRow.id == job.id).with_for_update(nowait=nowait)).one()
            now = self.store._database.now(session)
            for column, offset in seconds.items():
                setattr(row, column, now + timedelta(seconds=offset))

    def close(self) -> None:
        for worker in self._workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
            worker.wait()
        self.client.close()
        self.store.close()
        for log in sorted(self.folder.glob("worker-*.log")):
            print(f"--- {log.name}\n{log.read_text()}")


@pytest.fixture(params=["embedded", "servers"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """SQLite with messages in a folder, and PostgreSQL with Redis."""
    fixtures = ("sqlite_url", None) if request.param == "embedded" else ("postgres_url", "redis_url")
    database_url, broker_url = (request.getfixturevalue(name) if name else "filesystem://" for name in fixtures)
    service = Service(tmp_path, database_url, broker_url)
    yield service
    service.close()


@pytest.fixture
def embedded(tmp_path: Path, sqlite_url: str) -> Iterator[Service]:
    """SQLite with messages in a folder."""
    service = Service(tmp_path, sqlite_url, "filesystem://")
    yield service
    service.close()
