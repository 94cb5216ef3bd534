"""Which job answers a question that was asked before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import update

from minimizer.options import Options
from minimizer.report.model import Report
from minimizer.store import Job, NewJob, Store
from minimizer.store.tables.models import JobRow, WorkerRecord
from minimizer.vocabulary import Status

SCRIPT = b"import torch\n"


def run_to_end(store: Store, job: Job, **fields: object) -> None:
    claimed = store.leases.claim_job(job.id, "w", lease_seconds=60)
    assert claimed is not None
    store.results.finish(claimed, Report.model_validate({"status": Status.MINIMIZED, **fields}))


def test_the_same_question_at_the_same_moment_makes_one_job(store: Store) -> None:
    start = Barrier(4)

    def once(_: int) -> tuple[Job, bool]:
        start.wait()
        return store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options())])[0]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(once, range(4)))
    assert len({job.id for job, _ in answers}) == 1
    assert [created for _, created in answers].count(True) == 1


@pytest.mark.parametrize(
    ("options", "worker", "is_answer"),
    [
        (Options(), None, True),
        (Options(), {"torch": "2.13.0"}, True),
        (Options(), {"torch": "2.14.0"}, False),
        (Options(device="cuda"), {"torch": "2.14.0"}, True),
        (Options(device="cuda"), {"torch": "2.14.0", "device": "cuda"}, False),
        (Options(), {"torch": "2.14.0", "silent": True}, True),
        (Options(toolchain="nightly"), {"torch": "2.13.0"}, True),
        (Options(toolchain="nightly"), {"torch": "2.13.0", "toolchains": ["nightly"]}, False),
    ],
)
def test_an_old_answer_is_none_for_another_torch(
    store: Store, options: Options, worker: dict[str, Any] | None, is_answer: bool
) -> None:
    """Or a nightly gate would pass for ever on what an earlier torch has answered."""
    asked = NewJob(SCRIPT, "a.py", options)
    ((first, _),) = store.submissions.submit_many([asked])
    run_to_end(store, first, environment={"torch": "2.13.0+cpu"})
    if worker is not None:
        is_silent = "silent" in worker
        known = {name: value for name, value in worker.items() if name != "silent"}
        store.workers.register("w", **{"device": "cpu", **known})
        if is_silent:
            with store._database.write() as session:
                long_ago = store._database.now(session) - timedelta(hours=1)
                session.execute(update(WorkerRecord).values(last_seen=long_ago))
    ((job, created),) = store.submissions.submit_many([asked])
    assert (job.id == first.id, created) == (is_answer, not is_answer)


def test_a_job_under_way_is_the_answer_whatever_worker_comes(store: Store) -> None:
    ((first, _),) = store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options())])
    claimed = store.leases.claim("w", lease_seconds=60)
    assert claimed is not None
    store.results.put_report(claimed, Report(environment={"torch": "2.13.0"}))
    store.workers.register("w", device="cpu", torch="2.14.0")
    assert store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options())])[0][0].id == first.id


@pytest.mark.parametrize("filename", ["a.py", "models/" + "long" * 100 + ".py"])
@pytest.mark.parametrize("archive", [None, b"zipped"])
def test_a_job_that_runs_again_answers_who_asks_the_same(store: Store, filename: str, archive: bytes | None) -> None:
    asked = NewJob(SCRIPT, filename, Options(), archive)
    ((first, _),) = store.submissions.submit_many([asked])
    run_to_end(store, first)

    store.submissions.retry(first.id)
    waiting = store.submissions.submit_many([asked])
    run_to_end(store, first)
    ended = store.submissions.submit_many([asked])

    assert [(job.id, job.status, created) for job, created in waiting + ended] == [
        (first.id, Status.QUEUED, False),
        (first.id, Status.MINIMIZED, False),
    ]


def test_a_job_that_goes_on_with_another_budget_answers_who_asks_for_that(store: Store) -> None:
    ((first, _),) = store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options(budget=60))])
    run_to_end(store, first, status=Status.PARTIAL)

    store.submissions.retry(first.id, budget=600)

    ((same, created),) = store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options(budget=600))])
    ((other, is_new),) = store.submissions.submit_many([NewJob(SCRIPT, "a.py", Options(budget=60))])
    assert (same.id, created) == (first.id, False)
    assert other.id != first.id and is_new


def test_a_job_that_was_stored_with_fewer_options_answers_who_asks_the_same(store: Store) -> None:
    asked = NewJob(SCRIPT, "a.py", Options(budget=60))
    ((first, _),) = store.submissions.submit_many([asked], "key")
    with store._database.write() as session:
        session.execute(update(JobRow).values(options={"budget": 60}))

    ((same, _),) = store.submissions.submit_many([asked], "key")
    run_to_end(store, first)
    store.submissions.retry(first.id)
    ((again, _),) = store.submissions.submit_many([asked])

    assert [same.id, again.id] == [first.id] * 2


def test_a_job_that_runs_again_answers_before_a_newer_one_of_another_torch(store: Store) -> None:
    asked = NewJob(SCRIPT, "a.py", Options())
    ((first, _), (second, _)) = (store.submissions.submit_many([asked], force=True)[0] for _ in range(2))
    for job in (first, second):
        run_to_end(store, job, environment={"torch": "2.13.0"})
    store.workers.register("w", device="cpu", torch="2.14.0")

    store.submissions.retry(first.id)

    ((job, created),) = store.submissions.submit_many([asked])
    assert (job.id, created) == (first.id, False)


@pytest.mark.parametrize("status", [Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL, Status.FAILED, Status.CANCELLED])
def test_a_job_that_is_stopped_answers_once_it_has_ended_with_a_verdict(store: Store, status: Status) -> None:
    asked = NewJob(SCRIPT, "a.py", Options())
    ((first, _),) = store.submissions.submit_many([asked])
    claimed = store.leases.claim_job(first.id, "w", lease_seconds=60)
    assert claimed is not None
    store.jobs.request_cancel(first.id)
    ((meanwhile, is_new),) = store.submissions.submit_many([asked])
    assert meanwhile.id != first.id and is_new, "it may come to no answer"
    store.jobs.delete(meanwhile.id)

    store.results.finish(claimed, Report(status=status))

    ((job, created),) = store.submissions.submit_many([asked])
    has_verdict = status not in (Status.FAILED, Status.CANCELLED)
    assert (job.id == first.id, created) == (has_verdict, not has_verdict)
