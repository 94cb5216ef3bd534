"""What a project keeps: by age and by size, and never at the cost of what is pinned or under way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.store import Job, Store
from minimizer.store.jobs.jobs import find
from minimizer.store.tables.models import JobRow
from minimizer.vocabulary import Status


def ended(store: Store, name: str, days_ago: float = 0, size: int = 0, project: str = "default") -> Job:
    job, _ = store.submissions.submit(name.encode().ljust(10, b"#"), name, Options(), project=project)
    claim = store.leases.claim_job(job.id, "w", lease_seconds=60)
    assert claim is not None
    if size:
        store.results.put_artifact(claim, "data.pt", name.encode().ljust(size, b"#"))
    store.results.finish(claim, Report(status=Status.HEALTHY))
    with store._database.write() as session:
        moment = store._database.now(session) - timedelta(days=days_ago)
        session.execute(update(JobRow).where(JobRow.id == job.id).values(finished_at=moment))
    return store.jobs.get(job.id)


def left(store: Store) -> list[str]:
    return [job.filename for job in reversed(store.jobs.page()[0])]


def test_nothing_goes_unless_a_project_says_so(store: Store) -> None:
    ended(store, "old", days_ago=10_000, size=1 << 20)
    assert store.projects.retire() == []


def test_old_jobs_go_and_pinned_ones_stay(store: Store) -> None:
    store.projects.create("other")
    old = ended(store, "old", days_ago=31)
    store.jobs.pin(ended(store, "pinned", days_ago=31).id, True)
    ended(store, "young", days_ago=29)
    ended(store, "foreign", days_ago=31, project="other")
    store.submissions.submit(b"x = 1", "waiting", Options())
    store.projects.keep("default", days=30, size=None)
    assert store.projects.retire() == [old.id]
    assert left(store) == ["pinned", "young", "foreign", "waiting"]


@pytest.mark.parametrize("keep", [{"days": 30, "size": None}, {"days": None, "size": 0}])
def test_what_is_being_pinned_or_run_again_stays(postgres_url: str, keep: dict[str, int | None]) -> None:
    """SQLite has one writer at a time; on PostgreSQL somebody else may be at a job."""
    store = Store.open(postgres_url)
    gone, pinned, running = (ended(store, name, days_ago=31) for name in ("gone", "pinned", "running"))
    store.projects.keep("default", **keep)
    with store._database.write() as session:
        find(session, pinned.id, lock=True).pinned = True
        find(session, running.id, lock=True).status = Status.RUNNING
        session.flush()
        assert store.projects.retire() == [gone.id]
    assert left(store) == ["pinned", "running"]
    store.close()


def test_the_oldest_go_until_the_rest_fits(store: Store) -> None:
    store.jobs.pin(ended(store, "pinned", size=100_000).id, True)
    gone = [ended(store, name, size=100_000) for name in ("first", "second")]
    ended(store, "third", size=100_000)
    ended(store, "fourth", size=100_000)
    store.projects.keep("default", days=None, size=310_000)  # reports and scripts take a little, too
    assert store.projects.retire() == [job.id for job in gone]
    assert left(store) == ["pinned", "third", "fourth"]
    assert store.projects.retire() == []


def test_what_is_pinned_may_take_more_room_than_there_is(store: Store) -> None:
    for name in ("one", "two"):
        store.jobs.pin(ended(store, name, size=100_000).id, True)
    store.projects.keep("default", days=1, size=1)
    assert store.projects.retire() == []
    assert left(store) == ["one", "two"]
