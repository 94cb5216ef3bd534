"""The worker's side of the queue: take a job, keep it, give it back; and take it from a worker that fell silent.

A claim is one conditional update: of all who try, one finds the job still queued. It raises the job's fence, and every
later write names the fence it was made under, so a worker that was thought dead and wakes up changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from minimizer.store.database import Database
from minimizer.store.errors import LeaseLost
from minimizer.store.jobs import close_cancelled, is_id, touch, view
from minimizer.store.models import JobRow
from minimizer.store.views import Claim
from minimizer.types import Reason, Status

_RING_AT_ONCE = 50


class Leases:
    """The part of the store that hands jobs to workers."""

    _database: Database

    def claim(self, worker: str, *, lease_seconds: float) -> Claim | None:
        """Take the job that has waited longest, or ``None`` if none waits."""
        oldest = select(JobRow.id).where(JobRow.status == Status.QUEUED).order_by(JobRow.queued_at, JobRow.number)
        while True:
            with self._database.read() as session:
                job_id = session.scalars(oldest.limit(1)).one_or_none()
            if job_id is None:
                return None
            # Somebody may be quicker; then another one is the oldest.
            if (claim := self.claim_job(job_id, worker, lease_seconds=lease_seconds)) is not None:
                return claim

    def claim_job(self, job_id: str, worker: str, *, lease_seconds: float) -> Claim | None:
        """Take this job, or ``None`` if it does not wait: taken, ended, or deleted."""
        if not is_id(job_id):
            return None
        with self._database.write() as session:
            now = self._database.now(session)
            row = session.scalars(
                update(JobRow)
                .where(JobRow.id == job_id, JobRow.status == Status.QUEUED)
                .values(
                    status=Status.RUNNING,
                    worker=worker,
                    fence=JobRow.fence + 1,
                    attempt=JobRow.attempt + 1,
                    lease_until=now + timedelta(seconds=lease_seconds),
                    started_at=now,
                    updated_at=now,
                    version=JobRow.version + 1,
                )
                .returning(JobRow),
                execution_options={"synchronize_session": False},
            ).one_or_none()
            return None if row is None else Claim(view(row), worker, row.fence)

    def heartbeat(self, claim: Claim, lease_seconds: float) -> bool:
        """Keep the job; returns whether its owner wants it to stop.

        Raises:
            LeaseLost: it belongs to somebody else by now, or to nobody.
        """
        with self._database.write() as session:
            lease_until = self._database.now(session) + timedelta(seconds=lease_seconds)
            cancel = session.scalars(
                update(JobRow)
                .where(JobRow.id == claim.job_id, JobRow.fence == claim.fence, JobRow.status == Status.RUNNING)
                .values(lease_until=lease_until)
                .returning(JobRow.cancel_requested),
                execution_options={"synchronize_session": False},
            ).one_or_none()
        if cancel is None:
            raise LeaseLost(claim.job_id)
        return cancel

    def release(self, claim: Claim) -> None:
        """Put the job back into its place in the queue, as if it had not been taken: the worker is going away.

        Raises:
            LeaseLost: there is nothing left to give back.
        """
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            if row.cancel_requested:
                close_cancelled(row, now)
            else:
                # Going away in good order is not the job's fault.
                row.attempt -= 1
                _requeue(row, now)

    def requeue_expired(self, max_attempts: int) -> list[str]:
        """Take the jobs of silent workers from them; returns those that wait again and should be rung for.

        A job that has silenced ``max_attempts`` workers ends as failed, and a cancelled one as cancelled.
        """
        with self._database.write() as session:
            now = self._database.now(session)
            expired = select(JobRow).where(JobRow.status == Status.RUNNING, JobRow.lease_until < now)
            rows = session.scalars(expired.with_for_update(skip_locked=True)).all()
            for row in rows:
                if row.cancel_requested:
                    close_cancelled(row, now)
                elif row.attempt >= max_attempts:
                    _give_up(row, now)
                else:
                    _requeue(row, now)
            return [row.id for row in rows if row.status == Status.QUEUED]

    def stale_queued(self, older_than: float) -> list[str]:
        """The longest waiting jobs that nobody has rung for in this many seconds, marked as rung for now.

        Their message may have been lost; or all workers are busy, and a few more messages do no harm.
        """
        with self._database.write() as session:
            now = self._database.now(session)
            stale = (
                select(JobRow)
                .where(JobRow.status == Status.QUEUED, JobRow.rung_at < now - timedelta(seconds=older_than))
                .order_by(JobRow.queued_at, JobRow.number)
                .limit(_RING_AT_ONCE)
            )
            rows = session.scalars(stale.with_for_update(skip_locked=True)).all()
            for row in rows:
                row.rung_at = now
            return [row.id for row in rows]


def held(session: Session, claim: Claim) -> JobRow:
    """The row of a claimed job, locked.

    Raises:
        LeaseLost: the claim does not hold any more.
    """
    query = select(JobRow).where(
        JobRow.id == claim.job_id, JobRow.fence == claim.fence, JobRow.status == Status.RUNNING
    )
    row = session.scalars(query.with_for_update()).one_or_none()
    if row is None:
        raise LeaseLost(claim.job_id)
    return row


def _requeue(row: JobRow, now: datetime) -> None:
    row.status = Status.QUEUED
    row.worker = row.lease_until = None
    row.rung_at = now
    touch(row, now)


def _give_up(row: JobRow, now: datetime) -> None:
    row.status = Status.FAILED
    row.reason = Reason.INTERNAL_ERROR
    row.summary = (
        f"The worker died or fell silent {row.attempt} times while it was at this job, so it is not tried again. "
        "Most often the script takes more memory than the worker has: look at the worker's log, then retry the job."
    )
    row.worker = row.lease_until = None
    row.finished_at = now
    touch(row, now)
