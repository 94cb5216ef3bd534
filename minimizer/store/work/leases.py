"""The worker's side of the queue: claim a job, renew its lease, give it back; and requeue the jobs of silent workers.

A claim is one conditional update: of concurrent claimants only one finds the job still queued. It raises the job's fence token, and
every later write names the token, so that a worker that was thought dead and wakes up changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from minimizer.options import Options
from minimizer.store.errors import LeaseLost
from minimizer.store.jobs import artifacts
from minimizer.store.jobs.jobs import close, close_cancelled, is_id, touch, view
from minimizer.store.tables import blobs
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import JobRow, ProjectRow, WorkerRecord
from minimizer.store.views import Claim, Job, Wish
from minimizer.store.work.workers import SILENCE
from minimizer.vocabulary import Reason, Status

_AT_ONCE = 20
"""Waiting jobs that are read at once until one is found that can be claimed, which is mostly the first."""


class Leases:
    """The part of the store for claims and leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(
        self,
        worker: str,
        *,
        lease_seconds: float,
        devices: Collection[str] | None = None,
        toolchains: Collection[str] | None = None,
    ) -> Claim | None:
        """Claim the next job, or return ``None`` if no waiting job suits this worker.

        Projects take turns: first the one with the fewest running jobs, then the one served longest ago. Within a
        project the higher priority goes first, then the longer wait. A job that this worker has handed back is left to
        others: for the duration of a lease, and longer if another suitable, healthy worker was seen lately. A job
        submitted to a newer version is left to workers of that version.

        Args:
            devices, toolchains: the worker's devices other than the CPU, and its interpreters other than the default;
                ``None``: no restriction.
        """
        while True:
            with self._database.read() as session:
                now = self._database.now(session)
                left = (JobRow.updated_at < now - timedelta(seconds=lease_seconds)) & ~_has_other(session, worker, now)
                following = _in_turn(devices, toolchains, or_(_is_welcome(worker), left))
                with session.execute(following.execution_options(yield_per=_AT_ONCE)) as waiting:
                    job_id = next((job_id for job_id, options in waiting if Options.understands(options)), None)
            if job_id is None:
                return None
            # Another worker may be faster; then look for the next job.
            if (claim := self.claim_job(job_id, worker, lease_seconds=lease_seconds)) is not None:
                return claim

    def claim_job(self, job_id: str, worker: str, *, lease_seconds: float) -> Claim | None:
        """Claim this job, or return ``None`` if it is not queued (claimed, ended, or deleted).

        Its requirements are not checked.
        """
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
            if row is None:
                return None
            row.project.served_at = now
            return Claim(view(row), worker, row.fence)

    def heartbeat(self, claim: Claim, lease_seconds: float) -> Wish:
        """Renew the lease; returns what the job's owner has requested.

        Raises:
            LeaseLost: the job was requeued, ended, or claimed by another worker.
        """
        with self._database.write() as session:
            lease_until = self._database.now(session) + timedelta(seconds=lease_seconds)
            wish = session.execute(
                update(JobRow)
                .where(JobRow.id == claim.job_id, JobRow.fence == claim.fence, JobRow.status == Status.RUNNING)
                .values(lease_until=lease_until)
                .returning(JobRow.cancel_requested, JobRow.skip_requested),
                execution_options={"synchronize_session": False},
            ).one_or_none()
        if wish is None:
            raise LeaseLost(claim.job_id)
        return Wish(*wish)

    def release(self, claim: Claim) -> None:
        """Return the job to its place in the queue, as if it had not been claimed; for a worker that shuts down.

        Raises:
            LeaseLost: there is nothing left to give back.
        """
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            if row.cancel_requested:
                replaced = close_cancelled(session, row, now)
            else:
                # An orderly shutdown of the worker is not the job's fault, and does not count as an attempt.
                row.attempt -= 1
                replaced = _requeue(session, row, now)
        blobs.collect(self._database, replaced)

    def hand_back(self, claim: Claim, max_attempts: int) -> bool:
        """Return the job to the queue for another worker, since this machine is unfit for it; the attempt counts.

        Returns whether that was done. After ``max_attempts`` the job stays with the worker, which has to end it.

        Raises:
            LeaseLost: there is nothing left to give back.
        """
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            if row.cancel_requested:
                replaced = close_cancelled(session, row, now)
            elif row.attempt >= max_attempts:
                return False
            else:
                row.shuns = row.worker
                replaced = _requeue(session, row, now)
        blobs.collect(self._database, replaced)
        return True

    def pass_on(self, *, devices: Collection[str], toolchains: Collection[str]) -> None:
        """Mark jobs that a worker with these devices and interpreters could take as not rung, so that the reaper rings again. For a worker
        that takes no jobs at present, and may have consumed their messages."""
        with self._database.write() as session:
            long_ago = self._database.now(session) - timedelta(days=1)
            waiting = update(JobRow).where(JobRow.status == Status.QUEUED, *_can_take(devices, toolchains))
            session.execute(waiting.values(rung_at=long_ago), execution_options={"synchronize_session": False})

    def requeue_expired(self, max_attempts: int) -> list[Job]:
        """Requeue jobs with an expired lease; returns those that wait again and should be rung for.

        A job that was claimed ``max_attempts`` times ends as failed, and a cancelled one as cancelled; either with its verdict, if it has
        reached one.
        """
        with self._database.write() as session:
            now = self._database.now(session)
            expired = select(JobRow).where(JobRow.status == Status.RUNNING, JobRow.lease_until < now)
            rows = session.scalars(expired.with_for_update(skip_locked=True, of=JobRow)).all()
            replaced: list[str] = []
            for row in rows:
                if row.cancel_requested:
                    replaced += close_cancelled(session, row, now)
                elif row.attempt >= max_attempts:
                    replaced += _give_up(session, row, now)
                else:
                    replaced += _requeue(session, row, now)
            waiting = [view(row) for row in rows if row.status == Status.QUEUED]
        blobs.collect(self._database, replaced)
        return waiting

    def stale_queued(self, older_than: float, worker: str | None = None) -> list[Job]:
        """The longest-waiting job of each queue that was not rung for ``older_than`` seconds; these are marked as rung now.

        Their message may have been lost; if all workers are just busy, one more does no harm. One message is enough for a
        queue, since a worker goes on until no job is left.

        Args:
            worker: restrict to queues that this worker listens to; in others messages would pile up.
        """
        waits = JobRow.status == Status.QUEUED
        with self._database.write() as session:
            now = self._database.now(session)
            known = None if worker is None else session.get(WorkerRecord, worker)
            can_take = [] if known is None else _can_take(known.devices, known.interpreters)
            quiet = (
                select(JobRow.device, JobRow.toolchain)
                .where(waits, *can_take)
                .group_by(JobRow.device, JobRow.toolchain)
                .having(func.max(JobRow.rung_at) < now - timedelta(seconds=older_than))
            )
            rows: list[JobRow] = []
            for device, toolchain in session.execute(quiet).all():
                here = waits & JobRow.device.is_not_distinct_from(device)
                here &= JobRow.toolchain.is_not_distinct_from(toolchain)
                first = select(JobRow).where(here).order_by(JobRow.queued_at, JobRow.number).limit(1)
                rows += session.scalars(first.with_for_update(skip_locked=True, of=JobRow))
            for row in rows:
                row.rung_at = now
            return [view(row) for row in rows]


def _is_welcome(worker: str) -> ColumnElement[bool]:
    return or_(JobRow.shuns.is_(None), JobRow.shuns != worker)


def _has_other(session: Session, worker: str, now: datetime) -> ColumnElement[bool]:
    """Whether another worker that is alive and well could take the job."""
    others = session.scalars(
        select(WorkerRecord).where(
            WorkerRecord.name != worker, WorkerRecord.trouble == "", WorkerRecord.last_seen > now - SILENCE
        )
    )
    return or_(false(), *(and_(*_can_take(other.devices, other.interpreters)) for other in others))


def _in_turn(
    devices: Collection[str] | None, toolchains: Collection[str] | None, further: ColumnElement[bool]
) -> Select[str, dict[str, Any]]:
    """Query for the ids and options of waiting jobs that meet a ``further`` condition, in the order in which they should be claimed."""
    other = aliased(JobRow)
    running = (
        select(func.count())
        .select_from(other)
        .where(other.status == Status.RUNNING, other.project_number == JobRow.project_number)
        .scalar_subquery()
    )
    query = (
        select(JobRow.id, JobRow.options)
        .join(ProjectRow, ProjectRow.number == JobRow.project_number)
        .where(JobRow.status == Status.QUEUED)
        .order_by(
            running,
            ProjectRow.served_at.asc().nulls_first(),
            JobRow.priority.desc(),
            JobRow.queued_at,
            JobRow.number,
        )
    )
    return query.where(*_can_take(devices, toolchains), further)


def _can_take(devices: Collection[str] | None, toolchains: Collection[str] | None) -> list[ColumnElement[bool]]:
    needs = ((JobRow.device, devices), (JobRow.toolchain, toolchains))
    return [or_(need.is_(None), need.in_(has)) for need, has in needs if has is not None]


def held(session: Session, claim: Claim) -> JobRow:
    """The row of a claimed job, locked.

    Raises:
        LeaseLost: the claim is no longer valid.
    """
    query = select(JobRow).where(
        JobRow.id == claim.job_id, JobRow.fence == claim.fence, JobRow.status == Status.RUNNING
    )
    row = session.scalars(query.with_for_update(of=JobRow)).one_or_none()
    if row is None:
        raise LeaseLost(claim.job_id)
    return row


def _requeue(session: Session, row: JobRow, now: datetime) -> list[str]:
    row.status = Status.QUEUED
    row.worker = row.lease_until = None
    row.rung_at = now
    # Reset the step, and the summary, which may be that of a worker that reported the job's end when it was stopped.
    row.summary, row.step, row.progress, row.skip_requested = "", None, {}, None
    touch(row, now)
    return artifacts.restate(session, row, now)


def _give_up(session: Session, row: JobRow, now: datetime) -> list[str]:
    summary = (
        f"The worker died or fell silent {row.attempt} times while it was at this job, so it is not tried again. "
        "Most often the script takes more memory than the worker has: look at the worker's log, then retry the job."
    )
    return close(session, row, now, Status.FAILED, Reason.WORKER_TROUBLE, summary)
