"""How long a worker tries to write about its job while the database takes no writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from webtest import no_writes

from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.settings import Settings
from minimizer.sink import Sink
from minimizer.store import Claim, Job, Store, Wish
from minimizer.store.tables.models import DeliveryRow
from minimizer.vocabulary import Reason, Status
from worker.tasks import take_jobs

SETTINGS = Settings(lease_seconds=1000, heartbeat_seconds=0.05)
DONE = Report(status=Status.MINIMIZED, summary="Done.")
CUT_SHORT = Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED, summary="Stopped.")
MANY = 20
"""Tries after which a worker is taken to go on without end."""


class Clock:
    """What the lease takes for `time`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("worker.lease.time", clock)
    return clock


@pytest.fixture
def job(store: Store) -> Job:
    store.webhooks.create("default", "http://127.0.0.1/")
    return store.submissions.submit(b"x = 1\n", "a.py", Options())[0]


def take(store: Store, work: Callable[[Sink], Report], stopping: threading.Event, worker: str = "w") -> None:
    def engine(*_: object, sink: Sink, **__: object) -> Report:
        return work(sink)

    take_jobs(store, SETTINGS, worker=worker, devices=(), stopping=stopping, engine=engine)


@pytest.mark.parametrize(("end", "report"), [("finish", DONE), ("finish", CUT_SHORT), ("release", CUT_SHORT)])
def test_an_end_that_cannot_be_written_is_left_to_the_reaper_when_the_lease_is_over(
    store: Store, job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch, end: str, report: Report
) -> None:
    stopping, tries = threading.Event(), []
    part = store.leases if end == "release" else store.results
    real = getattr(part, end)

    def counted(claim: Claim, *report: Report) -> None:
        tries.append(clock.now)
        assert len(tries) < MANY, "it goes on without end"
        clock.now += 300
        real(claim, *report)

    monkeypatch.setattr(part, end, counted)
    with ExitStack() as outage:

        def work(sink: Sink) -> Report:
            outage.enter_context(no_writes(store))
            if end == "release":
                stopping.set()
            return report

        take(store, work, stopping)

    assert tries == [0, 300, 600, 900]
    assert store.jobs.get(job.id).status is Status.RUNNING
    monkeypatch.undo()
    with store._database.write() as session:
        session.execute(text("UPDATE jobs SET lease_until = '2000-01-01 00:00:00'"))
    assert [one.id for one in store.leases.requeue_expired(max_attempts=3)] == [job.id]
    take(store, lambda sink: DONE, threading.Event(), worker="another")
    ended = store.jobs.get(job.id)
    assert (ended.status, ended.attempt, ended.worker) == (Status.MINIMIZED, 2, "another")
    with store._database.read() as session:
        assert len(session.scalars(select(DeliveryRow.job_id)).all()) == 1


def test_an_end_is_written_when_the_database_comes_back_in_time(
    store: Store, job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, tries = store.results.finish, []

    def counted(claim: Claim, report: Report) -> None:
        tries.append(clock.now)
        clock.now += 300
        if len(tries) == 3:
            outage.close()
        finish(claim, report)

    monkeypatch.setattr(store.results, "finish", counted)
    with ExitStack() as outage:

        def work(sink: Sink) -> Report:
            outage.enter_context(no_writes(store))
            return DONE

        take(store, work, threading.Event())

    assert tries == [0, 300, 600]
    assert (store.jobs.get(job.id).status, store.jobs.get(job.id).attempt) == (Status.MINIMIZED, 1)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_cannot_be_written_while_heartbeats_can_holds_a_worker_until_it_is_told_to_stop(
    store: Store, job: Job, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """As on a disk that is full: a row is changed in place, and no file is taken."""
    stopping, beat, tries = threading.Event(), threading.Event(), []
    heartbeat, put_artifact = store.leases.heartbeat, store.results.put_artifact

    def beating(claim: Claim, lease_seconds: float) -> Wish:
        wish = heartbeat(claim, lease_seconds)
        beat.set()
        return wish

    def full(*given: Any) -> None:
        tries.append(clock.now)
        clock.now += 300
        for _ in range(2):  # by the second one the first has counted
            beat.clear()
            assert beat.wait(60)
        assert len(tries) < MANY, "it goes on without end"
        if len(tries) == 8 and not is_stopped:
            put_artifact(*given)
            return
        raise OperationalError("INSERT", None, OSError("no space left"))

    monkeypatch.setattr(store.leases, "heartbeat", beating)
    monkeypatch.setattr(store.results, "put_artifact", full)

    def work(sink: Sink) -> Report:
        if is_stopped:
            stopping.set()
        sink.artifact("repro.py", b"found")
        return CUT_SHORT if sink.cancelled() else DONE

    take(store, work, stopping)

    assert len(tries) == (5 if is_stopped else 8)
    assert store.jobs.get(job.id).status is (Status.RUNNING if is_stopped else Status.MINIMIZED)
