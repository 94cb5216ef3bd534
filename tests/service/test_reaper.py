"""The reaper of a worker, round by round."""

from __future__ import annotations

import threading
from datetime import timedelta

from sqlalchemy import update

from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Store, blobs
from minimizer.store.models import BlobRow, JobRow
from worker.reaper import Reaper


def test_only_what_the_worker_can_do_is_rung_for_and_once_a_queue(store: Store) -> None:
    cpu, cuda = (
        [store.submit(b"x = 1\n", "a.py", Options(device=device))[0].id for _ in range(3)] for device in ("cpu", "cuda")
    )
    settings = Settings()
    with store._database.write() as session:
        long_ago = store._database.now(session) - timedelta(seconds=2 * settings.lease_seconds)
        session.execute(update(JobRow).values(rung_at=long_ago))

    def sweep(worker: str, device: str) -> list[str]:
        rung: list[str] = []
        store.register_worker(worker, device=device, torch="2.13.0")
        reaper = Reaper(store, settings, worker, lambda job: rung.append(job.id), threading.Event())
        reaper.sweep()
        reaper.sweep()
        return rung

    assert sweep("small", "cpu") == [cpu[0]]
    assert sweep("large", "cuda") == [cuda[0]], "it comes, and its jobs wait no longer"


def test_content_that_was_left_behind_is_deleted(store: Store) -> None:
    kept = store.submit(b"x = 1\n", "a.py", Options())[0]
    with store._database.write() as session:
        lost = blobs.put(session, b"of a job whose deletion was cut short")
    Reaper(store, Settings(), "w", lambda job: None, threading.Event()).sweep()
    with store._database.read() as session:
        assert session.get(BlobRow, lost) is None
    assert store.script(kept.id) == b"x = 1\n"
