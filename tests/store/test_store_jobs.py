"""The owner's side of the store, on every database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import func, select

from minimizer.options import Options
from minimizer.report.model import Failure, Report
from minimizer.store import (
    Claim,
    IdempotencyConflict,
    InvalidCursor,
    Job,
    JobActive,
    NewJob,
    NothingToSkip,
    QueueFull,
    QuotaExceeded,
    Store,
    Submitter,
    UnknownArtifact,
    UnknownJob,
    Wish,
)
from minimizer.store.tables import blobs
from minimizer.store.tables.models import ArtifactRow, BlobRow
from minimizer.vocabulary import Kind, Reason, Role, Status, Step

SCRIPT = b"import torch\n"


def submit(store: Store, filename: str = "a.py", script: bytes = SCRIPT) -> Job:
    return store.submissions.submit(script, filename, Options())[0]


def claim(store: Store) -> Claim:
    claimed = store.leases.claim("w", lease_seconds=60)
    assert claimed is not None
    return claimed


def run_to_end(store: Store, job: Job, **fields: object) -> None:
    claimed = store.leases.claim_job(job.id, "w", lease_seconds=60)
    assert claimed is not None
    store.results.finish(claimed, Report.model_validate({"status": Status.MINIMIZED, **fields}))


def blob_count(store: Store) -> int:
    with store._database.read() as session:
        return session.execute(select(func.count()).select_from(BlobRow)).scalar_one()


def test_a_submitted_job_waits_and_keeps_what_was_asked(store: Store) -> None:
    options = Options(budget=60, args=["--small"], device="cpu")
    job, created = store.submissions.submit(SCRIPT, "train.py", options)
    assert created
    assert store.jobs.get(job.id) == job
    assert (job.status, job.filename, job.options, job.attempt) == (Status.QUEUED, "train.py", options, 0)
    assert job.created_at.utcoffset() is not None
    assert store.jobs.script(job.id) == SCRIPT


def test_ids_are_short_and_never_look_like_an_option(store: Store) -> None:
    ids = {submit(store).id for _ in range(100)}
    assert len(ids) == 100
    assert all(len(job_id) == 12 and job_id[0] != "-" for job_id in ids)


@pytest.mark.parametrize("force", [True, False])
def test_submissions_at_the_same_moment_do_not_pass_by_the_quota(store: Store, force: bool) -> None:
    store.users.create("anna", Role.MEMBER)
    start = Barrier(6)

    def submit_five(number: int) -> int:
        jobs = [NewJob(b"x = %d\n" % index, f"{number}.py", Options()) for index in range(5)]
        start.wait()
        try:
            return len(store.submissions.submit_many(jobs, by=Submitter(f"anna/token{number}", 7), force=force))
        except QuotaExceeded:
            return 0

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(submit_five, range(6))) == 5, "of two batches of five, one is taken"
    assert store.jobs.counts()[Status.QUEUED] == 5


@pytest.mark.parametrize("job_id", ["nosuchjob", "", "a\0b", "ä" * 12, "x" * 500, "' OR 1=1 --"])
def test_an_id_that_is_none_is_unknown(store: Store, job_id: str) -> None:
    for call in (
        store.jobs.get,
        store.jobs.script,
        store.results.events,
        store.results.artifacts,
        store.results.report,
        store.jobs.request_cancel,
        store.jobs.delete,
    ):
        with pytest.raises(UnknownJob):
            call(job_id)


def test_the_same_key_gives_the_same_job(store: Store) -> None:
    first, created = store.submissions.submit(SCRIPT, "a.py", Options(), "key \0")
    again, created_again = store.submissions.submit(SCRIPT, "a.py", Options(), "key \0")
    assert (created, created_again, again) == (True, False, first)


@pytest.mark.parametrize(
    ("script", "filename", "options"),
    [(b"other\n", "a.py", Options()), (SCRIPT, "b.py", Options()), (SCRIPT, "a.py", Options(budget=60))],
)
def test_the_same_key_for_something_else_is_refused(
    store: Store, script: bytes, filename: str, options: Options
) -> None:
    store.submissions.submit(SCRIPT, "a.py", Options(), "key")
    with pytest.raises(IdempotencyConflict):
        store.submissions.submit(script, filename, options, "key")
    assert store.jobs.counts()[Status.QUEUED] == 1


def test_the_same_key_at_the_same_moment_makes_one_job(store: Store) -> None:
    start = Barrier(4)

    def once(_: int) -> tuple[Job, bool]:
        start.wait()
        return store.submissions.submit(SCRIPT, "a.py", Options(), "key")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(once, range(4)))
    assert len({job.id for job, _ in answers}) == 1
    assert [created for _, created in answers].count(True) == 1
    assert store.jobs.counts()[Status.QUEUED] == 1


def test_what_is_read_belongs_together_whatever_is_written_meanwhile(store: Store) -> None:
    """A file that is replaced while it is read: its old content is there to the end of the reading."""
    submit(store)
    claimed = claim(store)
    store.results.put_artifact(claimed, "repro.py", b"old")
    with store._database.read() as session:
        (sha,) = session.scalars(select(ArtifactRow.sha256))
        store.results.put_artifact(claimed, "repro.py", b"new")
        assert blobs.get(session, sha) == b"old"
    assert store.results.artifact(claimed.job_id, "repro.py")[1] == b"new"


def test_a_full_queue_takes_no_more(open_store: Callable[..., Store]) -> None:
    store = open_store(max_queued_jobs=2)
    first = submit(store)
    submit(store)
    with pytest.raises(QueueFull):
        submit(store)
    run_to_end(store, first)
    submit(store)
    with pytest.raises(QueueFull):
        store.submissions.retry(first.id)
    assert store.jobs.get(first.id).status is Status.MINIMIZED


def test_pages_show_every_job_once_newest_first(store: Store) -> None:
    ids = [submit(store).id for _ in range(7)]
    seen, cursor = [], None
    for _ in range(4):
        page, cursor = store.jobs.page(cursor=cursor, limit=3)
        seen += [job.id for job in page]
        submit(store, "arrives-meanwhile.py")
        if cursor is None:
            break
    assert seen == ids[::-1]


@pytest.mark.parametrize("cursor", ["", "7", "!!!", "ä", "YmVmb3JlIHg", "YmVmb3JlIC03", "A" * 1000, "\0"])
def test_a_cursor_that_is_none_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        store.jobs.page(cursor=cursor)


def test_jobs_are_found_by_status_kind_signature_and_words(store: Store) -> None:
    crash, wrong, waiting = submit(store, "crash_100%.py"), submit(store, "wrong.py"), submit(store, "waits.py")
    run_to_end(store, crash, failure=Failure(kind=Kind.CRASH, signature="SIGSEGV in cpp_fused"))
    run_to_end(store, wrong, failure=Failure(kind=Kind.WRONG_OUTPUT, signature="aten.relu"), summary="relu is off")

    def found(**query: object) -> list[str]:
        return [job.id for job in store.jobs.page(**query)[0]]  # type: ignore[arg-type]

    assert found(status=Status.QUEUED) == [waiting.id]
    assert found(kind=Kind.CRASH) == [crash.id]
    assert found(q="aten.relu") == [wrong.id]
    assert found(q="RELU is") == [wrong.id]
    assert found(q="sigsegv") == [crash.id]
    assert found(q="100%") == [crash.id]
    assert found(q="%") == [crash.id], "a percent sign is no wildcard"
    assert found(q=waiting.id) == [waiting.id]
    assert found(q="\0'") == []


def test_failures_are_grouped(store: Store) -> None:
    same = [submit(store) for _ in range(2)]
    other = submit(store)
    for job in same:
        run_to_end(store, job, failure=Failure(kind=Kind.CRASH, signature="one"))
    run_to_end(store, other, failure=Failure(kind=Kind.HANG, signature="two"))
    run_to_end(store, submit(store), status=Status.HEALTHY)
    groups = store.groups.newest()
    assert [(group.kind, group.jobs) for group in groups] == [(Kind.HANG, 1), (Kind.CRASH, 2)]
    assert groups[1].latest is not None and groups[1].latest.id == same[1].id
    assert (groups[1].first_seen, groups[1].last_seen) == (same[0].created_at, same[1].created_at)


def test_counts_name_every_status(store: Store) -> None:
    submit(store)
    assert store.jobs.counts() == {status: int(status is Status.QUEUED) for status in Status}


def test_versions_rise_with_every_change_and_leave_out_who_is_not_there(store: Store) -> None:
    job = submit(store)
    before = store.jobs.versions([job.id, "nosuchjob", "a\0"])
    claimed = claim(store)
    store.results.record_event(claimed, "note", {"message": "hello"})
    store.leases.heartbeat(claimed, 60)
    assert before == {job.id: job.version}
    assert store.jobs.versions([job.id]) == {job.id: job.version + 2}, "a heartbeat is nothing to see"
    assert store.jobs.versions([]) == {}


def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    job = store.jobs.request_cancel(submit(store).id)
    assert (job.status, job.reason) == (Status.CANCELLED, Reason.INTERRUPTED)
    assert job.finished_at is not None
    assert store.jobs.request_cancel(job.id) == job
    assert store.leases.claim("w", lease_seconds=60) is None


def test_a_running_job_is_asked_to_stop(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    assert store.leases.heartbeat(claimed, 60) == Wish()
    job = store.jobs.request_cancel(claimed.job_id)
    assert (job.status, job.cancel_requested) == (Status.RUNNING, True)
    assert store.jobs.request_cancel(job.id) == job
    assert store.leases.heartbeat(claimed, 60) == Wish(cancel=True)


def test_the_worker_learns_which_step_to_skip_while_it_is_at_it(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    job_id = claimed.job_id

    def tell(**more: object) -> None:
        store.results.record_event(claimed, "progress", {"elapsed": 1.0, **more})

    for progress in ({"decided": False}, {"decided": True, "skippable": None}, {"decided": True, "skippable": "odd"}):
        tell(**progress)
        with pytest.raises(NothingToSkip):
            store.jobs.request_skip(job_id)
    tell(decided=True, skippable="layers")
    with pytest.raises(NothingToSkip, match="not at the step diagnose, but at layers"):
        store.jobs.request_skip(job_id, "diagnose")
    job = store.jobs.request_skip(job_id, "layers")
    assert (job.skippable, job.skip_requested) == (Step.LAYERS, "layers")
    assert store.jobs.request_skip(job_id) == job, "safe to repeat"
    assert store.leases.heartbeat(claimed, 60) == Wish(skip="layers")

    tell(decided=True, skippable="layers")
    assert store.leases.heartbeat(claimed, 60).skip == "layers", "until the step has ended"
    tell(decided=True, skippable=None)
    tell(decided=True, skippable="layers")
    assert store.leases.heartbeat(claimed, 60) == Wish(), "taken again, it is another one"


@pytest.mark.parametrize("ends", ["release", "cancel"])
def test_a_job_that_no_worker_is_at_has_no_step_to_skip(store: Store, ends: str) -> None:
    submit(store)
    claimed = claim(store)
    store.results.record_event(claimed, "progress", {"decided": True, "skippable": "layers"})
    store.jobs.request_skip(claimed.job_id)
    if ends == "release":
        store.leases.release(claimed)
        assert store.leases.heartbeat(claim(store), 60) == Wish()
    else:
        store.jobs.request_cancel(claimed.job_id)
    assert store.jobs.get(claimed.job_id).skippable is None
    with pytest.raises(NothingToSkip):
        store.jobs.request_skip(claimed.job_id)


def test_a_job_that_has_ended_is_not_cancelled(store: Store) -> None:
    job = submit(store)
    run_to_end(store, job)
    ended = store.jobs.get(job.id)
    assert store.jobs.request_cancel(job.id) == ended


def test_retry_queues_a_job_without_its_old_results(store: Store) -> None:
    job = submit(store)
    claimed = claim(store)
    store.results.record_event(claimed, "note", {"message": "hello"})
    store.results.put_artifact(claimed, "repro.py", b"old")
    store.results.finish(
        claimed, Report(status=Status.PARTIAL, failure=Failure(kind=Kind.CRASH, signature="s"), summary="so far")
    )
    again = store.submissions.retry(job.id)
    assert (again.status, again.failure, again.summary, again.attempt) == (Status.QUEUED, None, "", 0)
    assert (again.started_at, again.finished_at, again.cancel_requested) == (None, None, False)
    assert again.version > job.version
    assert (store.results.artifacts(job.id), store.results.events(job.id), store.results.report(job.id)) == (
        [],
        [],
        None,
    )
    assert store.groups.newest() == []
    assert store.submissions.retry(job.id) == again, "one that waits is left alone"
    second = claim(store)
    assert second.fence > claimed.fence
    store.results.record_event(second, "note", {"message": "again"})
    assert [row.seq for row in store.results.events(job.id)] == [2], (
        "event numbers go on, for those who resume a stream"
    )


def test_a_running_job_is_not_deleted(store: Store) -> None:
    submit(store)
    claimed = claim(store)
    with pytest.raises(JobActive):
        store.jobs.delete(claimed.job_id)
    assert store.jobs.get(claimed.job_id).status is Status.RUNNING


def test_a_deleted_job_is_gone_with_all_it_has_made(store: Store) -> None:
    job, _ = store.submissions.submit(SCRIPT, "a.py", Options(), "key")
    claimed = claim(store)
    store.results.put_artifact(claimed, "repro.py", b"repro")
    store.results.record_event(claimed, "note", {})
    store.results.finish(claimed, Report(status=Status.MINIMIZED))
    store.jobs.delete(job.id)
    with pytest.raises(UnknownJob):
        store.jobs.get(job.id)
    assert blob_count(store) == 0
    assert store.submissions.submit(SCRIPT, "a.py", Options(), "key")[1], "its key is free again"


def test_jobs_share_content_until_the_last_one_is_gone(store: Store) -> None:
    first, second = submit(store), submit(store)
    assert blob_count(store) == 1
    claimed = claim(store)
    store.results.put_artifact(claimed, "copy.py", SCRIPT)
    store.results.finish(claimed, Report(status=Status.MINIMIZED))
    store.jobs.delete(second.id)
    assert store.jobs.script(first.id) == store.results.artifact(first.id, "copy.py")[1] == SCRIPT
    with pytest.raises(UnknownArtifact):
        store.results.artifact(first.id, "other\0.py")


def test_a_deletion_and_a_submission_of_the_same_script_do_not_lose_it(store: Store) -> None:
    kept = []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            old = submit(store)
            deletion = pool.submit(store.jobs.delete, old.id)
            kept.append(pool.submit(submit, store).result())
            deletion.result()
            assert store.jobs.script(kept[-1].id) == SCRIPT
            store.jobs.delete(kept[-1].id)


def test_ping_answers(store: Store) -> None:
    store.ping()
