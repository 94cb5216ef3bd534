"""Who may run a job: claims, fences, leases, and what happens to the jobs of workers that fall silent."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from minimizer.options import Options
from minimizer.report.model import Failure, Report
from minimizer.store import Claim, Job, JobActive, LeaseLost, NewJob, Store, UnknownArtifact, UnknownJob, Wish
from minimizer.store.tables.models import JobRow, WorkerRecord
from minimizer.vocabulary import Kind, Reason, Status


def submit(store: Store) -> Job:
    return store.submissions.submit(b"import torch\n", "a.py", Options())[0]


def claim(store: Store, worker: str = "w") -> Claim:
    claimed = store.leases.claim(worker, lease_seconds=60)
    assert claimed is not None
    return claimed


def expire(store: Store, claimed: Claim) -> None:
    """Let the lease run out, without waiting for it."""
    assert store.leases.heartbeat(claimed, lease_seconds=-1) == Wish()


def claim_all(store: Store, worker: str) -> list[str]:
    taken = []
    while (claimed := store.leases.claim(worker, lease_seconds=60)) is not None:
        taken.append(claimed.job_id)
        store.results.finish(claimed, Report(status=Status.HEALTHY))
    return taken


def claim_all_in_process(url: str, worker: str) -> list[str]:
    store = Store.open(url)
    try:
        return claim_all(store, worker)
    finally:
        store.close()


def test_the_job_that_has_waited_longest_is_first(store: Store) -> None:
    jobs = [submit(store) for _ in range(3)]
    store.jobs.request_cancel(jobs[0].id)
    store.submissions.retry(jobs[0].id)
    order = [claim(store).job_id for _ in jobs]
    assert order == [jobs[1].id, jobs[2].id, jobs[0].id], "a retried job queues up behind"
    assert store.leases.claim("w", lease_seconds=60) is None


def test_a_claim_shows_in_the_job(store: Store) -> None:
    job = submit(store)
    store.workers.register("w-1", device="cpu", torch="2.13.0")
    claimed = store.leases.claim_job(job.id, "w-1", lease_seconds=60)
    assert claimed is not None
    running = store.jobs.get(job.id)
    assert claimed.job == running
    assert (running.status, running.worker, running.attempt) == (Status.RUNNING, "w-1", 1)
    assert running.started_at is not None
    assert [(row.name, row.device, row.torch, row.job_id) for row in store.workers.all()] == [
        ("w-1", "cpu", "2.13.0", job.id)
    ]
    store.results.finish(claimed, Report(status=Status.HEALTHY))
    assert [row.job_id for row in store.workers.all()] == [None]
    store.workers.remove("w-1")
    assert store.workers.all() == []


@pytest.mark.parametrize("job_id", ["nosuchjob", "a\0b"])
def test_a_message_for_a_job_that_is_not_there_claims_nothing(store: Store, job_id: str) -> None:
    assert store.leases.claim_job(job_id, "w", lease_seconds=60) is None


def test_a_job_is_claimed_once(store: Store) -> None:
    job = submit(store)
    assert store.leases.claim_job(job.id, "first", lease_seconds=60) is not None
    assert store.leases.claim_job(job.id, "second", lease_seconds=60) is None
    assert store.jobs.get(job.id).worker == "first"


def test_threads_that_claim_at_once_share_the_jobs(store: Store) -> None:
    ids = [submit(store).id for _ in range(24)]
    with ThreadPoolExecutor(6) as pool:
        taken = list(pool.map(lambda number: claim_all(store, f"w-{number}"), range(6)))
    assert sorted(job_id for jobs in taken for job_id in jobs) == sorted(ids)
    assert store.jobs.counts()[Status.HEALTHY] == len(ids)


def test_processes_that_claim_at_once_share_the_jobs(store: Store, database_url: str) -> None:
    ids = [submit(store).id for _ in range(24)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        taken = [pool.submit(claim_all_in_process, database_url, f"w-{number}") for number in range(3)]
        assert sorted(job_id for jobs in taken for job_id in jobs.result()) == sorted(ids)
    assert store.jobs.counts()[Status.HEALTHY] == len(ids)


def test_a_worker_that_is_alive_keeps_its_job(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    expire(store, claimed)
    store.leases.heartbeat(claimed, lease_seconds=60)
    assert store.leases.requeue_expired(max_attempts=3) == []
    assert store.jobs.get(claimed.job_id).status is Status.RUNNING


def test_the_job_of_a_silent_worker_waits_again(store: Store) -> None:
    submit(store)
    claimed = claim(store, "silent")
    expire(store, claimed)
    assert [job.id for job in store.leases.requeue_expired(max_attempts=3)] == [claimed.job_id]
    job = store.jobs.get(claimed.job_id)
    assert (job.status, job.worker) == (Status.QUEUED, None)
    second = claim(store, "second")
    assert (second.job_id, second.job.attempt) == (claimed.job_id, 2)
    assert second.fence > claimed.fence


WRITES: dict[str, Callable[[Store, Claim], object]] = {
    "heartbeat": lambda store, claimed: store.leases.heartbeat(claimed, 60),
    "record_event": lambda store, claimed: store.results.record_event(
        claimed, "step", {"step": "reduce", "state": "started"}
    ),
    "put_artifact": lambda store, claimed: store.results.put_artifact(claimed, "repro.py", b"wrong"),
    "put_report": lambda store, claimed: store.results.put_report(claimed, Report(summary="wrong")),
    "finish": lambda store, claimed: store.results.finish(claimed, Report(status=Status.HEALTHY, summary="wrong")),
    "release": lambda store, claimed: store.leases.release(claimed),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("since", ["requeued", "claimed", "finished"])
def test_a_worker_that_lost_its_lease_changes_nothing(store: Store, write: str, since: str) -> None:
    submit(store)
    lost = claim(store, "lost")
    expire(store, lost)
    store.leases.requeue_expired(max_attempts=3)
    if since != "requeued":
        second = claim(store, "second")
        if since == "finished":
            store.results.finish(second, Report(status=Status.MINIMIZED, summary="right"))
    before = store.jobs.get(lost.job_id)
    with pytest.raises(LeaseLost):
        WRITES[write](store, lost)
    assert store.jobs.get(lost.job_id) == before
    assert store.results.events(lost.job_id) == []
    with pytest.raises(UnknownArtifact):
        store.results.artifact(lost.job_id, "repro.py")


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_after_the_end(store: Store, write: str) -> None:
    submit(store)
    claimed = claim(store)
    store.results.finish(claimed, Report(status=Status.MINIMIZED, summary="right"))
    ended = store.jobs.get(claimed.job_id)
    with pytest.raises(LeaseLost):
        WRITES[write](store, claimed)
    assert store.jobs.get(claimed.job_id) == ended


def test_nothing_is_written_about_a_deleted_job(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    expire(store, claimed)
    store.leases.requeue_expired(max_attempts=3)
    store.jobs.delete(claimed.job_id)
    with pytest.raises(LeaseLost):
        store.results.record_event(claimed, "note", {})


def test_a_job_that_a_machine_could_not_do_waits_for_another(store: Store) -> None:
    submit(store)
    taken = claim(store, "sick")

    assert store.leases.hand_back(taken, max_attempts=3)

    assert store.leases.claim("sick", lease_seconds=60) is None
    again = claim(store, "well")
    assert (again.job_id, again.job.attempt) == (taken.job_id, 2)


def test_where_no_other_comes_the_same_worker_tries_again(store: Store) -> None:
    submit(store)
    taken = claim(store)
    store.leases.hand_back(taken, max_attempts=3)
    assert store.leases.claim("w", lease_seconds=60) is None

    again = store.leases.claim("w", lease_seconds=0)

    assert again is not None and again.job.attempt == 2


@pytest.mark.parametrize(
    ("other", "comes_back"),
    [
        ({"device": "cuda"}, False),
        ({"device": "cpu"}, True),
        ({"device": "cuda", "trouble": "the disk is full"}, True),
        ({"device": "cuda", "silent": True}, True),
    ],
)
def test_a_job_does_not_come_back_where_another_worker_could_take_it(
    store: Store, other: dict[str, Any], comes_back: bool
) -> None:
    store.submissions.submit(b"import torch\n", "a.py", Options(device="cuda"))
    store.workers.register("w", device="cuda", torch="2.13.0")
    store.workers.register("other", device=other["device"], torch="2.13.0")
    store.workers.seen("other", other.get("trouble", ""))
    if "silent" in other:
        with store._database.write() as session:
            long_ago = store._database.now(session) - timedelta(hours=1)
            session.execute(update(WorkerRecord).where(WorkerRecord.name == "other").values(last_seen=long_ago))
    store.leases.hand_back(claim(store), max_attempts=3)

    again = store.leases.claim("w", lease_seconds=0, devices=["cuda"], toolchains=[])

    assert (again is not None) is comes_back


def test_a_job_that_was_tried_often_enough_is_left_to_be_ended(store: Store) -> None:
    submit(store)
    taken = claim(store)
    assert not store.leases.hand_back(taken, max_attempts=1)
    store.results.finish(taken, Report(status=Status.FAILED, reason=Reason.WORKER_TROUBLE))

    assert store.submissions.retry(taken.job_id).attempt == 0
    assert claim(store).job_id == taken.job_id, "whoever retries it means anybody"


def test_a_cancelled_job_is_not_handed_on(store: Store) -> None:
    submit(store)
    taken = claim(store)
    store.jobs.request_cancel(taken.job_id)
    assert store.leases.hand_back(taken, max_attempts=3)
    assert store.jobs.get(taken.job_id).status is Status.CANCELLED


def test_what_a_worker_does_not_take_is_rung_for_anew(store: Store) -> None:
    job = submit(store)
    assert store.leases.stale_queued(older_than=60) == []
    store.leases.pass_on(devices=(), toolchains=())
    assert [waiting.id for waiting in store.leases.stale_queued(older_than=60)] == [job.id]


def test_a_job_that_silences_its_workers_is_given_up(store: Store) -> None:
    submit(store)
    for attempt in (1, 2, 3):
        claimed = claim(store)
        assert claimed.job.attempt == attempt
        expire(store, claimed)
        requeued = store.leases.requeue_expired(max_attempts=3)
        assert [job.id for job in requeued] == ([claimed.job_id] if attempt < 3 else [])
    job = store.jobs.get(claimed.job_id)
    assert (job.status, job.reason) == (Status.FAILED, Reason.WORKER_TROUBLE)
    assert "fell silent 3 times" in job.summary
    assert job.finished_at is not None
    assert store.submissions.retry(job.id).attempt == 0
    assert claim(store).job.attempt == 1


def test_a_failure_whose_worker_died_joins_its_group(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    failure = Failure(kind=Kind.CRASH, signature="crash-1")
    store.results.record_event(claimed, "failure", {"failure": failure.model_dump(mode="json")})
    expire(store, claimed)
    store.leases.requeue_expired(max_attempts=1)
    (group,) = store.groups.newest()
    assert (group.kind, group.jobs) == (Kind.CRASH, 1)


def test_a_job_that_fails_otherwise_the_next_time_leaves_its_group(store: Store) -> None:
    job = submit(store)
    store.results.finish(claim(store), Report(status=Status.MINIMIZED, failure=Failure(kind=Kind.WRONG_OUTPUT)))
    store.submissions.retry(job.id)
    claimed = claim(store)
    store.results.record_event(claimed, "failure", {"failure": Failure(kind=Kind.CRASH).model_dump(mode="json")})
    expire(store, claimed)
    store.leases.requeue_expired(max_attempts=1)
    assert {group.kind for group in store.groups.newest() if group.jobs} == {Kind.CRASH}


def test_a_job_that_waits_again_is_at_no_step(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    store.results.record_event(claimed, "step", {"step": "reduce", "state": "started"})
    expire(store, claimed)
    (waiting,) = store.leases.requeue_expired(max_attempts=3)
    assert (waiting.status, waiting.step) == (Status.QUEUED, None)


def test_a_cancelled_job_of_a_silent_worker_is_cancelled(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    store.jobs.request_cancel(claimed.job_id)
    assert store.leases.heartbeat(claimed, lease_seconds=-1) == Wish(cancel=True)
    assert store.leases.requeue_expired(max_attempts=3) == []
    assert store.jobs.get(claimed.job_id).status is Status.CANCELLED


def test_the_job_of_a_silent_worker_is_cancelled_and_deleted_with_no_other_there(store: Store) -> None:
    for _ in range(2):
        submit(store)
    first, second = claim(store), claim(store)
    expire(store, first)
    assert store.jobs.request_cancel(first.job_id).status is Status.CANCELLED
    with pytest.raises(LeaseLost):
        store.results.finish(first, Report(status=Status.HEALTHY))
    with pytest.raises(JobActive):
        store.jobs.delete(second.job_id)
    expire(store, second)
    store.jobs.delete(second.job_id)
    with pytest.raises(UnknownJob):
        store.jobs.get(second.job_id)


def cancel(store: Store, claimed: Claim) -> None:
    expire(store, claimed)
    store.jobs.request_cancel(claimed.job_id)
    store.leases.requeue_expired(max_attempts=3)


def cancel_while_it_waits(store: Store, claimed: Claim) -> None:
    store.leases.release(claimed)
    store.jobs.request_cancel(claimed.job_id)


def give_back_when_cancelled(store: Store, claimed: Claim) -> None:
    store.jobs.request_cancel(claimed.job_id)
    store.leases.release(claimed)


def give_up(store: Store, claimed: Claim) -> None:
    expire(store, claimed)
    store.leases.requeue_expired(max_attempts=1)


def expire_for_another(store: Store, claimed: Claim) -> None:
    expire(store, claimed)
    store.leases.requeue_expired(max_attempts=3)


def release(store: Store, claimed: Claim) -> None:
    store.leases.release(claimed)


FOUND = Report(failure=Failure(kind=Kind.WRONG_OUTPUT), notes=["seen"])
STOPPED = FOUND.model_copy(update={"status": Status.CANCELLED, "reason": Reason.INTERRUPTED, "summary": "Cancelled."})


@pytest.mark.parametrize(
    ("end", "status", "reason", "words"),
    [
        (cancel, "cancelled", "interrupted", "what it has found so far is kept"),
        (cancel_while_it_waits, "cancelled", "interrupted", "what it has found so far is kept"),
        (give_back_when_cancelled, "cancelled", "interrupted", "what it has found so far is kept"),
        (give_up, "failed", "worker_trouble", "fell silent 1 times"),
    ],
)
def test_the_report_of_a_job_without_its_worker_ends_with_the_job(
    store: Store, end: Callable[[Store, Claim], None], status: str, reason: str, words: str
) -> None:
    submit(store)
    claimed = claim(store)
    store.results.put_report(claimed, FOUND)
    end(store, claimed)
    job, report = store.jobs.get(claimed.job_id), store.results.report(claimed.job_id)
    assert report is not None
    assert (job.status, job.reason) == (report.status, report.reason) == (status, reason)
    assert job.summary == report.summary and words in job.summary
    assert report.notes == ["seen"], "what was found is kept"


@pytest.mark.parametrize("again", [release, expire_for_another])
def test_a_job_that_waits_again_is_nowhere_said_to_have_ended(
    store: Store, again: Callable[[Store, Claim], None]
) -> None:
    submit(store)
    claimed = claim(store)
    store.results.put_report(claimed, STOPPED)
    for name in ("report.md", "issue.md"):
        store.results.put_artifact(claimed, name, b"Cancelled.")
    again(store, claimed)
    job, report = store.jobs.get(claimed.job_id), store.results.report(claimed.job_id)
    assert (job.status, job.reason, job.summary) == (Status.QUEUED, None, "")
    assert report is not None and (report.status, report.reason, report.summary) == (Status.RUNNING, None, "")
    assert report.notes == ["seen"]
    assert [artifact.name for artifact in store.results.artifacts(job.id)] == ["report.json"]


def test_two_reapers_requeue_a_job_once(store: Store) -> None:
    submit(store)
    expire(store, claim(store))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: store.leases.requeue_expired(max_attempts=3), range(4)))
    assert sorted(len(ids) for ids in answers) == [0, 0, 0, 1]


def test_a_job_that_was_given_back_has_lost_no_attempt_and_keeps_its_place(store: Store) -> None:
    first, second = submit(store), submit(store)
    claimed = claim(store)
    store.results.put_artifact(claimed, "repro.py", b"so far")
    store.leases.release(claimed)
    job = store.jobs.get(first.id)
    assert (job.status, job.attempt, job.worker) == (Status.QUEUED, 0, None)
    assert store.results.artifact(first.id, "repro.py")[1] == b"so far", "the best so far survives"
    again = claim(store)
    assert (again.job_id, again.job.attempt) == (first.id, 1)
    assert again.fence > claimed.fence
    assert claim(store).job_id == second.id


def test_a_cancelled_job_is_not_given_back(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    store.jobs.request_cancel(claimed.job_id)
    store.leases.release(claimed)
    assert store.jobs.get(claimed.job_id).status is Status.CANCELLED


def forget_the_bell(store: Store) -> None:
    """Let it be long since anybody was rung."""
    with store._database.write() as session:
        long_ago = store._database.now(session) - timedelta(seconds=100)
        session.execute(update(JobRow).values(rung_at=long_ago))


@pytest.fixture(params=[{"new": 1}, {"budget": "as long as it takes"}], ids=["name", "value"])
def newer(request: pytest.FixtureRequest, store: Store) -> Job:
    """A job of which a newer version was asked something, ahead of the others."""
    job = submit(store)
    with store._database.write() as session:
        session.execute(
            update(JobRow).where(JobRow.id == job.id).values(options=job.options.model_dump() | request.param)
        )
    return job


def test_a_job_for_newer_workers_does_not_keep_an_older_one_from_the_rest(store: Store, newer: Job) -> None:
    others = [submit(store).id for _ in range(2)]
    assert claim_all(store, "older") == others
    waiting = store.jobs.get(newer.id)
    assert (waiting.status, waiting.attempt, waiting.options) == (Status.QUEUED, 0, Options())


def test_many_jobs_for_newer_workers_are_passed_by(store: Store, newer: Job) -> None:
    for _ in range(45):
        submit(store)
    last = submit(store)
    with store._database.write() as session:
        session.execute(update(JobRow).where(JobRow.id != last.id).values(options={"new": 1}))
    assert claim_all(store, "older") == [last.id]


def test_the_reaper_of_an_older_version_puts_back_what_a_newer_worker_left(store: Store, newer: Job) -> None:
    claimed = store.leases.claim_job(newer.id, "newer", lease_seconds=60)
    assert claimed is not None
    ordinary = submit(store)
    expire(store, claimed)
    assert [job.id for job in store.leases.requeue_expired(max_attempts=3)] == [newer.id]
    assert [job.id for job in store.leases.stale_queued(older_than=0)] == [newer.id]
    assert claim(store, "older").job_id == ordinary.id


def test_a_job_for_newer_workers_is_listed_cancelled_and_run_again(store: Store, newer: Job) -> None:
    ordinary = submit(store)
    page, cursor = store.jobs.page(limit=1)
    rest, _ = store.jobs.page(limit=1, cursor=cursor)
    assert [job.id for job in page + rest] == [ordinary.id, newer.id]
    assert store.jobs.request_cancel(newer.id).status is Status.CANCELLED
    assert store.submissions.retry(newer.id).status is Status.QUEUED
    assert claim_all(store, "older") == [ordinary.id]


def test_a_queue_that_nobody_was_rung_for_is_rung_for_once_a_while(store: Store) -> None:
    running, first, second = submit(store), submit(store), submit(store)
    store.leases.claim_job(running.id, "w", lease_seconds=60)
    assert store.leases.stale_queued(older_than=60) == []
    forget_the_bell(store)
    assert [job.id for job in store.leases.stale_queued(older_than=60)] == [first.id], "one message is enough"
    assert store.leases.stale_queued(older_than=60) == [], "it was rung for just now"
    assert [job.id for job in store.leases.stale_queued(older_than=0)] == [first.id]
    store.leases.claim_job(first.id, "w", lease_seconds=60)
    assert [job.id for job in store.leases.stale_queued(older_than=0)] == [second.id]
    forget_the_bell(store)
    submit(store)
    assert store.leases.stale_queued(older_than=60) == [], "whoever hears of the new job takes the old one, too"


def test_a_queue_that_nobody_listens_to_waits_for_its_worker(store: Store) -> None:
    needs: list[dict[str, Any]] = [{}, {"device": "cuda"}, {"toolchain": "old"}, {"device": "cuda", "toolchain": "old"}]
    jobs = [store.submissions.submit(b"x = 1\n", "a.py", Options(**need))[0].id for need in needs for _ in range(2)][
        ::2
    ]
    store.workers.register("plain", device="cpu", torch="2.13.0")
    store.workers.register("gpu", device="cuda", torch="2.13.0", toolchains=["new"])
    store.workers.register("all", device="cuda", torch="2.13.0", toolchains=["new", "old"])

    def rung(worker: str) -> list[str]:
        return sorted(job.id for job in store.leases.stale_queued(60, worker))

    forget_the_bell(store)
    assert rung("plain") == jobs[:1]
    assert rung("gpu") == jobs[1:2], "the first queue was rung just now"
    assert rung("all") == sorted(jobs[2:])
    forget_the_bell(store)
    assert rung("nobody knows it") == sorted(jobs)


def test_projects_take_turns_and_priority_counts_within_one(store: Store) -> None:
    for name in ("big", "small"):
        store.projects.create(name)

    def add(project: str, filename: str, priority: int = 0) -> None:
        store.submissions.submit_many(
            [NewJob(b"x = 1\n", filename, Options(), priority=priority)], project=project, force=True
        )

    for number in range(3):
        add("big", f"big-{number}")
    add("big", "big-urgent", priority=5)
    add("small", "small-0")
    add("small", "small-1")
    order = []
    for _ in range(6):
        claimed = claim(store)
        order.append(claimed.job.filename)
        store.results.finish(claimed, Report(status=Status.HEALTHY))
    assert order == ["big-urgent", "small-0", "big-0", "small-1", "big-1", "big-2"]


def test_a_project_with_running_jobs_waits_for_one_without(store: Store) -> None:
    store.projects.create("other")
    store.submissions.submit(b"x = 1\n", "mine-0", Options())
    store.submissions.submit(b"x = 1\n", "mine-1", Options())
    store.submissions.submit(b"x = 1\n", "other-0", Options(), project="other")
    assert [claim(store).job.filename for _ in range(3)] == ["mine-0", "other-0", "mine-1"]
