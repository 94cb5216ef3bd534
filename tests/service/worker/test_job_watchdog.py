"""A worker whose job does not give it back: the process ends, and the job is the reaper's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from minimizer.vocabulary import Reason, Status
from worker import watchdog
from worker.watchdog import STATUS, Watchdog

if TYPE_CHECKING:
    from conftest import Service

NAME = f"stuck-{os.getpid()}"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watchdog, "time", clock)
    return clock


def processes(name: str) -> list[Path]:
    """Those that were started under this name, wherever they run."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and (process / "cmdline").read_bytes().startswith(f"{name}\0".encode()):
                found.append(process)
        except OSError:
            continue
    return found


def test_a_job_has_its_budget_and_the_grace(clock: Clock) -> None:
    watched = Watchdog("j", 90, lambda: False)
    clock.now += 90 + watchdog.GRACE_SECONDS
    assert watched.why() == ""
    clock.now += 1
    assert watched.why() == "it is not over 600 s after its budget of 90 s"


def test_a_job_that_is_not_wanted_is_let_finish_as_long_as_it_looks_up(clock: Clock) -> None:
    unwanted = False
    watched = Watchdog("j", 86_400, lambda: unwanted)
    clock.now += 1000  # while it is wanted it may be silent for long
    assert watched.why() == ""
    unwanted = True
    for _ in range(10):
        clock.now += watchdog.SILENT_SECONDS - 1
        assert watched.why() == ""
        watched.asked()
    clock.now += watchdog.SILENT_SECONDS + 1
    assert watched.why() == "it is not wanted any more, and has not looked up for 60 s"


@pytest.mark.examples(1)
def test_a_job_that_never_comes_back_is_tried_on_other_workers_and_given_up(service: Service) -> None:
    job = service.submit(f"# stuck {NAME}-budget", budget=10)
    service.ring(job.id)
    for attempt in (1, 2):
        worker = service.start_worker(GRACE_SECONDS=-9.5)
        assert worker.wait() == STATUS
        assert (service.store.jobs.get(job.id).status, service.store.jobs.get(job.id).attempt) == (
            Status.RUNNING,
            attempt,
        )
        service.let_lease_expire(job)
    service.start_worker()
    assert service.until_status(job, Status.FAILED).reason is Reason.WORKER_TROUBLE
    log = (service.folder / "worker-0.log").read_text()
    assert f"job {job.id} holds this worker: it is not over" in log
    assert "fake_worker.py" in log.partition("most recent call first")[2], "the stack says where it hangs"


@pytest.mark.examples(1)
def test_a_cancelled_job_that_does_not_come_back_ends_its_worker_and_its_child(service: Service) -> None:
    job = service.submit(f"# stuck {NAME}-cancelled")
    service.ring(job.id)
    worker = service.start_worker(SILENT_SECONDS=1)
    service.until("the sandboxed process", lambda: bool(processes(f"{NAME}-cancelled")))
    service.store.jobs.request_cancel(job.id)
    assert worker.wait() == STATUS
    service.until("the end of the sandboxed process", lambda: not processes(f"{NAME}-cancelled"))
    service.let_lease_expire(job)
    following = service.submit("# done")
    service.start_worker()
    service.ring(following.id)
    assert service.until_status(job, Status.CANCELLED).attempt == 1
    service.until_status(following, Status.MINIMIZED)
