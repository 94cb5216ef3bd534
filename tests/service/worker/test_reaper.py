"""The reaper of a worker, round by round."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import update

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Job, Store
from minimizer.store.tables import blobs
from minimizer.store.tables.models import BlobRow, JobRow
from worker import reaper as reaping
from worker.reaper import Reaper


def reaper_of(
    store: Store,
    worker: str = "w",
    *,
    ring: Callable[[Job], None] = lambda job: None,
    stopping: threading.Event | None = None,
    trouble: str = "",
) -> Reaper:
    def register() -> None:
        store.workers.register(worker, device="cpu", torch="2.13.0")

    return Reaper(
        store,
        Settings(),
        worker,
        register=register,
        ring=ring,
        stopping=stopping or threading.Event(),
        trouble=lambda: trouble,
    )


def test_a_worker_says_what_is_wrong_with_its_machine_and_rings_for_others_no_more(store: Store) -> None:
    store.submissions.submit(b"x = 1\n", "a.py", Options())
    rung: list[Job] = []
    reaper_of(store, trouble="", ring=rung.append).sweep()
    store.leases.pass_on(devices=(), toolchains=())

    reaper_of(store, trouble="the disk is full", ring=rung.append).sweep()
    assert (store.workers.all()[0].trouble, rung) == ("the disk is full", [])

    reaper_of(store, trouble="", ring=rung.append).sweep()
    assert (store.workers.all()[0].trouble, len(rung)) == ("", 1)


def test_only_what_the_worker_can_do_is_rung_for_and_once_a_queue(store: Store) -> None:
    cpu, cuda = (
        [store.submissions.submit(b"x = 1\n", "a.py", Options(device=device))[0].id for _ in range(3)]
        for device in ("cpu", "cuda")
    )
    settings = Settings()
    with store._database.write() as session:
        long_ago = store._database.now(session) - timedelta(seconds=2 * settings.lease_seconds)
        session.execute(update(JobRow).values(rung_at=long_ago))

    def sweep(worker: str, device: str) -> list[str]:
        rung: list[str] = []
        store.workers.register(worker, device=device, torch="2.13.0")
        reaper = reaper_of(store, worker, ring=lambda job: rung.append(job.id))
        reaper.sweep()
        reaper.sweep()
        return rung

    assert sweep("small", "cpu") == [cpu[0]]
    assert sweep("large", "cuda") == [cuda[0]], "it comes, and its jobs wait no longer"


def test_content_that_was_left_behind_is_deleted(store: Store) -> None:
    kept = store.submissions.submit(b"x = 1\n", "a.py", Options())[0]
    with store._database.write() as session:
        lost = blobs.put(session, blobs.pack(b"of a job whose deletion was cut short"))
    reaper_of(store).sweep()
    with store._database.read() as session:
        assert session.get(BlobRow, lost) is None
    assert store.jobs.script(kept.id) == b"x = 1\n"


def test_a_worker_that_was_forgotten_is_known_again(store: Store) -> None:
    reaper_of(store).sweep()
    assert [worker.name for worker in store.workers.all()] == ["w"]


def test_after_the_machine_has_slept_the_heartbeats_come_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lease has run out, also that of the worker whose reaper this is."""
    store.submissions.submit(b"x = 1\n", "a.py", Options())
    claimed = store.leases.claim("w", lease_seconds=-1)
    assert claimed is not None
    clock = iter([0.0, 3600.0])
    monkeypatch.setattr(reaping, "_behind", lambda: next(clock, 3600.0))
    monkeypatch.setattr(Reaper, "sweep", lambda self: swept.append(len(pauses)))
    swept: list[int] = []
    pauses: list[float] = []

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            if len(pauses) == 3:
                self.set()
            return self.is_set()

    reaper_of(store, stopping=Stopping())._run()
    assert swept == [0, 2], "one round before, and the next one after two pauses"
    assert pauses == [Settings().reap_seconds, 2 * Settings().heartbeat_seconds, Settings().reap_seconds]
