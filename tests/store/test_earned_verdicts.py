"""A job that has reached its verdict keeps it, though its worker does not come to end it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy import select

from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction, Report
from minimizer.store import Claim, Job, LeaseLost, Store, Wish
from minimizer.store.tables.models import DeliveryRow
from minimizer.vocabulary import Kind, Reason, Status

MINIMIZED = Report(
    status=Status.MINIMIZED,
    reason=Reason.DISPUTED,
    summary="torch.relu returns wrong values.",
    failure=Failure(kind=Kind.WRONG_OUTPUT, signature="relu"),
    culprits=[Culprit(ops=["aten.relu"])],
    reduction=Reduction(nodes_before=40, nodes_after=1, trials=7, one_minimal=True),
)
HEALTHY = Report(status=Status.HEALTHY, summary="Nothing is wrong.")
NOT_RUNNABLE = Report(status=Status.FAILED, reason=Reason.NOT_RUNNABLE, summary="It raises an error.")


def expire(store: Store, claim: Claim) -> None:
    """Let the lease run out, without waiting for it."""
    assert isinstance(store.leases.heartbeat(claim, lease_seconds=-1), Wish)


def cancel_when_expired(store: Store, claim: Claim) -> None:
    expire(store, claim)
    store.jobs.request_cancel(claim.job_id)


def expire_when_cancelled(store: Store, claim: Claim) -> None:
    store.jobs.request_cancel(claim.job_id)
    expire(store, claim)
    store.leases.requeue_expired(max_attempts=3)


def release_when_cancelled(store: Store, claim: Claim) -> None:
    store.jobs.request_cancel(claim.job_id)
    store.leases.release(claim)


def hand_back_when_cancelled(store: Store, claim: Claim) -> None:
    store.jobs.request_cancel(claim.job_id)
    assert store.leases.hand_back(claim, max_attempts=3)


def give_up(store: Store, claim: Claim) -> None:
    expire(store, claim)
    store.leases.requeue_expired(max_attempts=1)


ENDS = [cancel_when_expired, expire_when_cancelled, release_when_cancelled, hand_back_when_cancelled, give_up]


def decide(store: Store, claim: Claim, report: Report) -> None:
    store.results.put_report(claim, report)
    store.results.record_event(claim, "progress", {"elapsed": 1.0, "decided": True})
    assert store.jobs.get(claim.job_id).can_stop


def said(job: Job) -> tuple[Status, Reason | None, str]:
    return job.status, job.reason, job.summary


@pytest.mark.parametrize("report", [MINIMIZED, HEALTHY, NOT_RUNNABLE], ids=lambda report: report.status)
@pytest.mark.parametrize("end", ENDS)
def test_a_verdict_is_kept_and_told_once(
    store: Store, claim: Claim, end: Callable[[Store, Claim], None], report: Report
) -> None:
    store.webhooks.create("default", "http://127.0.0.1/")
    decide(store, claim, report)
    store.results.put_artifact(claim, "report.md", b"# Report\n")

    end(store, claim)
    store.jobs.request_cancel(claim.job_id)
    store.leases.requeue_expired(max_attempts=1)

    job = store.jobs.get(claim.job_id)
    assert said(job) == (report.status, report.reason, report.summary)
    assert (job.failure, job.reduction, job.worker) == (report.failure, report.reduction, None)
    assert job.finished_at is not None
    assert store.results.report(job.id) == report
    assert store.results.artifact(job.id, "report.md")[1] == b"# Report\n", "it says the same"
    assert len(store.groups.newest()) == (report.failure is not None)
    with store._database.read() as session:
        (body,) = session.scalars(select(DeliveryRow.body))
    told = json.loads(body)["job"]
    assert (told["status"], told["reason"], told["summary"]) == (report.status, report.reason, report.summary)
    with pytest.raises(LeaseLost):
        store.results.finish(claim, report)


def test_what_was_seen_after_the_verdict_does_not_contradict_it(store: Store, claim: Claim) -> None:
    """A worker may die between telling of another failure and making it the job's own."""
    decide(store, claim, MINIMIZED)
    store.results.record_event(claim, "failure", {"failure": Failure(kind=Kind.CRASH).model_dump(mode="json")})

    cancel_when_expired(store, claim)

    job = store.jobs.get(claim.job_id)
    assert job.failure == MINIMIZED.failure
    assert [group.kind for group in store.groups.newest()] == [Kind.WRONG_OUTPUT]


@pytest.mark.parametrize("end", ENDS)
def test_a_report_is_no_verdict_before_the_job_says_so(
    store: Store, claim: Claim, end: Callable[[Store, Claim], None]
) -> None:
    store.results.put_report(claim, MINIMIZED)

    end(store, claim)

    job, report = store.jobs.get(claim.job_id), store.results.report(claim.job_id)
    assert job.status is (Status.FAILED if end is give_up else Status.CANCELLED)
    assert report is not None and (report.status, report.reason) == (job.status, job.reason)


@pytest.mark.parametrize("stored", [None, Report(), Report(status=Status.CANCELLED, reason=Reason.INTERRUPTED)])
def test_a_job_without_the_report_of_a_verdict_is_cancelled(store: Store, claim: Claim, stored: Report | None) -> None:
    if stored is not None:
        store.results.put_report(claim, stored)
    store.results.record_event(claim, "progress", {"decided": True})

    cancel_when_expired(store, claim)

    assert said(store.jobs.get(claim.job_id))[:2] == (Status.CANCELLED, Reason.INTERRUPTED)


def test_a_job_that_nobody_has_stopped_waits_for_another_worker_and_its_verdict_is_reached_anew(
    store: Store, claim: Claim
) -> None:
    decide(store, claim, MINIMIZED)
    expire(store, claim)

    (waiting,) = store.leases.requeue_expired(max_attempts=3)
    cancelled = store.jobs.request_cancel(waiting.id)

    assert waiting.status is Status.QUEUED
    assert cancelled.status is Status.CANCELLED
