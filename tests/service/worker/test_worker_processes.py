"""Worker processes on real brokers: whatever happens to them and to messages, every job ends, and ends once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from checkout import ROOT
from sqlalchemy import create_engine, text

from minimizer.vocabulary import Reason, Status

if TYPE_CHECKING:
    from conftest import Service

TERMINATE_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid != pg_backend_pid()"


@pytest.mark.examples(1)
def test_doubled_messages_run_every_job_once(service: Service) -> None:
    jobs = [service.submit(f"# done {number}") for number in range(6)]
    for job in jobs:
        service.ring(job.id, times=3)
    service.start_worker()
    service.start_worker()
    for job in jobs:
        assert service.until_status(job, Status.MINIMIZED).attempt == 1
    service.until_no_message_waits()
    assert sorted(script for _, script in service.runs()) == [f"# done {number}" for number in range(6)]


@pytest.mark.examples(1)
def test_a_worker_that_was_killed_loses_no_job(service: Service) -> None:
    job = service.submit("# hold")
    service.ring(job.id)
    first = service.start_worker()
    service.until_runs(1)
    first.kill()
    first.wait()
    assert service.store.jobs.get(job.id).status is Status.RUNNING
    service.let_lease_expire(job)
    service.go()
    second = service.start_worker()
    ended = service.until_status(job, Status.MINIMIZED)
    assert [pid for pid, _ in service.runs()] == [first.pid, second.pid]
    assert (ended.attempt, ended.summary) == (2, f"Done by {second.pid}.")
    assert service.store.results.artifact(job.id, "run.log")[1] == f"by {second.pid}\n".encode()


@pytest.mark.examples(1)
def test_a_worker_that_wakes_up_after_it_was_given_up_changes_nothing(service: Service) -> None:
    job = service.submit("# hold")
    service.ring(job.id)
    frozen = service.start_worker()
    service.until_runs(1)
    service.freeze(frozen, job)
    second = service.start_worker()
    service.until_runs(2)
    service.go()
    ended = service.until_status(job, Status.MINIMIZED)
    second.terminate()
    second.wait()
    frozen.send_signal(signal.SIGCONT)
    # It has come to the end of the lost job when it takes the next one.
    following = service.submit("# done")
    service.ring(following.id)
    assert service.until_status(following, Status.MINIMIZED).summary == f"Done by {frozen.pid}."
    assert service.store.jobs.get(job.id) == ended
    assert service.store.results.artifact(job.id, "repro.py")[1] == f"# by {second.pid}\n".encode()


@pytest.mark.examples(1)
def test_a_job_that_kills_its_workers_is_given_up(service: Service) -> None:
    job = service.submit("# die")
    service.ring(job.id)
    for attempt in (1, 2):
        assert service.start_worker().wait() == -signal.SIGKILL
        assert service.store.jobs.get(job.id).attempt == attempt
        service.let_lease_expire(job)
    service.start_worker()
    ended = service.until_status(job, Status.FAILED)
    assert ended.reason is Reason.WORKER_TROUBLE
    assert "fell silent 2 times" in ended.summary
    assert len(service.runs()) == 2


@pytest.mark.examples(1)
def test_a_lost_message_is_made_good_from_the_database(service: Service) -> None:
    job = service.submit("# done")
    service.start_worker()
    service.let_bell_grow_old(job)
    service.until_status(job, Status.MINIMIZED)
    assert len(service.runs()) == 1


@pytest.mark.parametrize("service", ["servers"], indirect=True)
def test_a_worker_outlives_its_connections(service: Service, redis_url: str, postgres_url: str) -> None:
    first, second = service.submit("# done"), service.submit("# done")
    service.ring(first.id)
    service.start_worker()
    service.until_status(first, Status.MINIMIZED)
    with redis.Redis.from_url(redis_url) as client:
        database = str(client.connection_pool.connection_kwargs.get("db", 0))
        others = [
            other["id"]
            for other in client.client_list()
            if other["db"] == database and int(other["id"]) != client.client_id()
        ]
        assert others, "the worker waits at the broker"
        for other in others:
            client.client_kill_filter(_id=other)
    server = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(TERMINATE_OTHERS))
    server.dispose()
    service.ring(second.id)
    service.until_status(second, Status.MINIMIZED)
    assert len(service.runs()) == 2


@pytest.mark.examples(1)
def test_messages_for_jobs_that_do_not_wait_do_no_harm(service: Service) -> None:
    deleted, cancelled, wanted = (service.submit("# done") for _ in range(3))
    service.store.jobs.delete(deleted.id)
    service.store.jobs.request_cancel(cancelled.id)
    for job_id in (deleted.id, cancelled.id, "\0 no id", wanted.id):
        service.ring(job_id)
    service.start_worker()
    service.until_status(wanted, Status.MINIMIZED)
    assert len(service.runs()) == 1
    assert service.store.jobs.get(cancelled.id).status is Status.CANCELLED


@pytest.mark.examples(1)
def test_a_running_job_is_cancelled_and_the_worker_goes_on(service: Service) -> None:
    held, following = service.submit("# hold"), service.submit("# done")
    service.ring(held.id)
    service.ring(following.id)
    worker = service.start_worker()
    service.until_runs(1)
    assert [row.job_id for row in service.store.workers.all()] == [held.id]
    service.store.jobs.request_cancel(held.id)
    assert service.until_status(held, Status.CANCELLED).summary == "Stopped."
    assert service.until_status(following, Status.MINIMIZED).summary == f"Done by {worker.pid}."


@pytest.mark.examples(1)
def test_a_worker_that_is_told_to_stop_gives_its_job_back(service: Service) -> None:
    job = service.submit("# hold")
    service.ring(job.id)
    first = service.start_worker()
    service.until_runs(1)
    first.terminate()
    assert first.wait() == 0
    waiting = service.store.jobs.get(job.id)
    assert (waiting.status, waiting.attempt) == (Status.QUEUED, 0)
    assert service.store.workers.all() == []
    service.go()
    second = service.start_worker()
    ended = service.until_status(job, Status.MINIMIZED)
    assert (ended.attempt, ended.summary) == (1, f"Done by {second.pid}.")
    assert len(service.runs()) == 2


@pytest.mark.examples(1)
def test_a_worker_without_a_job_stops_at_once(service: Service) -> None:
    job = service.submit("# done")
    service.ring(job.id)
    worker = service.start_worker()
    service.until_status(job, Status.MINIMIZED)
    worker.send_signal(signal.SIGINT)
    assert worker.wait() == 0
    assert service.store.workers.all() == []


@pytest.mark.examples(1)
def test_a_worker_that_loses_the_exception_of_a_signal_stops_too(service: Service) -> None:
    """As in a finalizer that the signal interrupts, before Celery has taken over."""
    worker = service.start_worker("--stopped-early")
    assert worker.wait() == 0
    assert service.store.workers.all() == []


@pytest.mark.parametrize("service", ["servers"], indirect=True)
def test_a_worker_stops_in_order_while_the_database_takes_no_writes(service: Service, postgres_url: str) -> None:
    job = service.submit("# done")
    service.ring(job.id)
    worker = service.start_worker()
    service.until_status(job, Status.MINIMIZED)
    server = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    name = server.url.database
    with server.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
        connection.execute(text(TERMINATE_OTHERS))
        try:
            worker.terminate()
            assert worker.wait() == 0
        finally:
            connection.execute(text("SET default_transaction_read_only = off"))
            connection.execute(text(f"ALTER DATABASE {name} RESET default_transaction_read_only"))
            connection.execute(text(TERMINATE_OTHERS))
    server.dispose()
    (log,) = service.folder.glob("worker-*.log")
    said = log.read_text().splitlines()[-1]
    assert "has not signed off" in said and "read-only transaction" in said


def test_a_worker_says_what_to_do_about_a_database_without_tables(tmp_path: Path) -> None:
    environment = {**os.environ, "MINIMIZER_DATA_DIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-m", "worker"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr == "the database has no tables yet: run `minimizer db upgrade`\n"


@pytest.mark.parametrize("module", ["worker.__main__", "worker.app", "minimizer.store"])
def test_no_torch_is_imported(module: str) -> None:
    check = f"import {module}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0
