"""The watcher: one reader for all who wait, and nothing that goes wrong with it is for ever."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from web.service.watch import Slots, Watcher


class Versions:
    """Stands where the store's query stands, and remembers who asked, and how often."""

    def __init__(self) -> None:
        self.now = {"a": 1, "b": 1}
        self.readers: set[threading.Thread] = set()
        self.reads = 0
        self.failures = 0
        self.asked = threading.Event()

    def __call__(self, ids: Collection[str]) -> Mapping[str, int]:
        self.readers.add(threading.current_thread())
        self.reads += 1
        self.asked.set()
        if self.failures:
            self.failures -= 1
            raise OSError("the database is away")
        return {job_id: self.now[job_id] for job_id in ids if job_id in self.now}


@pytest.fixture
def versions() -> Versions:
    return Versions()


@pytest.fixture
def watcher(versions: Versions) -> Iterator[Watcher]:
    watcher = Watcher(versions, interval=0.01)
    yield watcher
    watcher.close()


def wait(watcher: Watcher, job_id: str, version: int = 1, timeout: float = 60) -> bool:
    with watcher.watching(job_id):
        return watcher.wait(job_id, version, timeout)


def test_all_who_wait_share_one_reader(watcher: Watcher, versions: Versions) -> None:
    with ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(wait, watcher, job_id) for job_id in "ab" * 6]
        assert versions.asked.wait(60)
        versions.now = {"a": 2, "b": 5}
        assert all(one.result(timeout=60) for one in waiting)
    assert len(versions.readers) == 1


def test_nobody_is_woken_for_another_job(watcher: Watcher, versions: Versions) -> None:
    with ThreadPoolExecutor(2) as pool:
        for_a, for_b = pool.submit(wait, watcher, "a"), pool.submit(wait, watcher, "b", timeout=0.3)
        versions.now["a"] = 2
        assert for_a.result(timeout=60) is True
        assert for_b.result(timeout=60) is False


def test_nobody_is_woken_while_nothing_changes(versions: Versions) -> None:
    """Hundreds that wake up at every look of the watcher would slow down everybody else."""
    looks: list[str] = []

    class Counting(Watcher):
        def _is_newer(self, job_id: str, version: int) -> bool:
            looks.append(job_id)
            return super()._is_newer(job_id, version)

    watcher = Counting(versions, interval=0.001)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(wait, watcher, "a")
        while versions.reads < 50:
            versions.asked.clear()
            assert versions.asked.wait(60)
        versions.now["a"] = 2
        assert waiting.result(timeout=60) is True
    watcher.close()
    assert len(looks) <= 6


def test_what_the_client_knows_is_newer_than_what_was_seen(watcher: Watcher) -> None:
    assert wait(watcher, "a", version=7, timeout=0.2) is False


def test_deleted_job_wakes(watcher: Watcher, versions: Versions) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait, watcher, "a")
        del versions.now["a"]
        assert waiting.result(timeout=60) is True


def test_database_that_is_away_for_a_moment_is_survived(watcher: Watcher, versions: Versions) -> None:
    versions.failures = 3
    versions.now["a"] = 2
    assert wait(watcher, "a") is True


def test_closing_sends_everybody_home(watcher: Watcher, versions: Versions) -> None:
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(wait, watcher, "a", timeout=3600) for _ in range(3)]
        assert versions.asked.wait(60)
        watcher.close()
        assert [one.result(timeout=60) for one in waiting] == [False] * 3


def test_slots_are_counted() -> None:
    slots = Slots(2)
    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.give_back()
    assert slots.taken == 1 and slots.take()
