"""The owner's side of a job: read, cancel, pin, delete. Submission is in `submissions`."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.orm import Session

from minimizer.options import Options
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction
from minimizer.report.part import Part
from minimizer.store.errors import InvalidCursor, JobActive, NothingToSkip, UnknownJob
from minimizer.store.jobs import artifacts, grouping
from minimizer.store.jobs.outbox import announce_end
from minimizer.store.tables import blobs, bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import ArtifactRow, JobRow, ProjectRow
from minimizer.store.views import Job
from minimizer.vocabulary import Kind, Reason, Status

Found = TypeVar("Found", bound=Part)

log = logging.getLogger(__name__)

MAX_PAGE = 200
"""Most jobs of one page."""

_VERDICTS = (Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL, Status.FAILED)

_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}")


class Jobs:
    """The part of the store for the owners of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, job_id: str) -> Job:
        """The current state of a job.

        Raises:
            UnknownJob: no job has this id.
        """
        with self._database.read() as session:
            return view(find(session, job_id))

    def page(
        self,
        *,
        status: Status | None = None,
        kind: Kind | None = None,
        q: str | None = None,
        projects: Collection[str] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> tuple[list[Job], str | None]:
        """A page of jobs, newest first, and the cursor of the next page if there is one.

        ``q`` is searched in the file name, the id, the summary and the failure's signature. ``projects`` restricts the
        search to these projects; ``None``: all.

        Raises:
            InvalidCursor: the cursor is not from an earlier page.
        """
        query = select(JobRow).order_by(JobRow.number.desc())
        if status is not None:
            query = query.where(JobRow.status == status)
        if kind is not None:
            query = query.where(JobRow.kind == kind)
        if q:
            query = query.where(_matches(q))
        if projects is not None:
            query = query.where(_in(projects))
        if cursor is not None:
            query = query.where(JobRow.number < _decode_cursor(cursor))
        limit = max(1, min(limit, MAX_PAGE))
        with self._database.read() as session:
            rows = session.scalars(query.limit(limit + 1)).all()
            page = [view(row) for row in rows[:limit]]
            more = len(rows) > limit
            return page, _encode_cursor(rows[limit - 1].number) if more else None

    def versions(self, job_ids: Collection[str]) -> Mapping[str, int]:
        """Versions by id of those of these jobs that exist; one cheap query for all who wait for a change."""
        query = select(JobRow.id, JobRow.version).where(JobRow.id.in_(filter(is_id, job_ids)))
        with self._database.read() as session:
            return {row.id: row.version for row in session.execute(query)}

    def counts(self, projects: Collection[str] | None = None) -> dict[Status, int]:
        """Number of jobs (of these projects) in each status, zeros included."""
        query = select(JobRow.status, func.count()).group_by(JobRow.status)
        if projects is not None:
            query = query.where(_in(projects))
        with self._database.read() as session:
            found = {Status(status): count for status, count in session.execute(query)}
        return {status: found.get(status, 0) for status in Status}

    def script(self, job_id: str) -> bytes:
        """The script as it was submitted."""
        with self._database.read() as session:
            return blobs.get(session, find(session, job_id).script_sha)

    def archive(self, job_id: str) -> bytes | None:
        """The archive that the script was submitted in; None if it was not."""
        with self._database.read() as session:
            sha = find(session, job_id).archive_sha
            return None if sha is None else blobs.get(session, sha)

    def request_cancel(self, job_id: str) -> Job:
        """Cancel a waiting job, or request the cancellation of a running one; an ended job is unchanged."""
        replaced: list[str] = []
        with self._changing(job_id) as (session, row, now):
            match Status(row.status):
                case Status.QUEUED:
                    replaced = close_cancelled(session, row, now)
                case Status.RUNNING if has_expired(row, now):  # a silent worker would not see a request
                    replaced = close_cancelled(session, row, now)
                case Status.RUNNING if not row.cancel_requested:
                    row.cancel_requested = True
                    touch(row, now)
        blobs.collect(self._database, replaced)
        return view(row)

    def request_skip(self, job_id: str, step: str | None = None) -> Job:
        """Ask the worker of a job not to go on with the step that it is at; safe to repeat.

        ``step``: the one that is meant, so that a request that comes late skips no other; by default the one at work.

        Raises:
            NothingToSkip: there is none, or it is another one.
        """
        with self._changing(job_id) as (_, row, now):
            current = view(row).skippable
            if current is None or step not in (None, current):
                raise NothingToSkip(job_id, step, current)
            if row.skip_requested != current:
                row.skip_requested = current
                touch(row, now)
        return view(row)

    def pin(self, job_id: str, pinned: bool) -> Job:
        """Exempt a job from its project's retention, or end the exemption."""
        with self._changing(job_id) as (_, row, now):
            if row.pinned != pinned:
                row.pinned = pinned
                touch(row, now)
        return view(row)

    def delete(self, job_id: str) -> None:
        """Delete a job and all its results.

        Raises:
            JobActive: it is running; cancel it first.
        """
        with self._database.write() as session:
            row = find(session, job_id, lock=True)
            if row.status == Status.RUNNING and not has_expired(row, self._database.now(session)):
                raise JobActive(job_id, "delete it")
            made = select(ArtifactRow.sha256).where(ArtifactRow.job_number == row.number)
            shas = {row.script_sha, row.archive_sha, *session.scalars(made)}
            session.execute(delete(JobRow).where(JobRow.number == row.number))
        blobs.collect(self._database, filter(None, shas))

    @contextmanager
    def _changing(self, job_id: str) -> Iterator[tuple[Session, JobRow, datetime]]:
        with self._database.write() as session:
            yield session, find(session, job_id, lock=True), self._database.now(session)


def is_id(job_id: str) -> bool:
    """Whether a text has the form of a job id."""
    return _JOB_ID.fullmatch(job_id) is not None


def find(session: Session, job_id: str, *, lock: bool = False) -> JobRow:
    """The row of a job.

    Raises:
        UnknownJob: no job has this id.
    """
    row = None
    # An untrusted id may contain characters that PostgreSQL does not accept even as a parameter.
    if is_id(job_id):
        query = select(JobRow).where(JobRow.id == job_id)
        row = session.scalars(query.with_for_update(of=JobRow) if lock else query).one_or_none()
    if row is None:
        raise UnknownJob
    return row


def view(row: JobRow) -> Job:
    """The row as a `Job`."""
    return Job(
        id=row.id,
        status=Status(row.status),
        reason=Reason(row.reason) if row.reason else None,
        step=row.step,
        progress=row.progress,
        filename=row.filename,
        options=Options.from_store(row.options),
        script_sha=row.script_sha,
        project=row.project.name,
        submitted_by=row.submitted_by,
        pinned=row.pinned,
        priority=row.priority,
        has_archive=row.archive_sha is not None,
        attempt=row.attempt,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        updated_at=row.updated_at,
        worker=row.worker,
        failure=_part(Failure, row.failure, row),
        culprit=_part(Culprit, row.culprit, row),
        reduction=_part(Reduction, row.reduction, row),
        summary=row.summary,
        version=row.version,
        cancel_requested=row.cancel_requested,
        skip_requested=row.skip_requested,
    )


def _part(part: type[Found], kept: dict[str, Any] | None, row: JobRow) -> Found | None:
    """A stored part of a job's result; None if there is none, or if this version does not know its form."""
    if kept is None:
        return None
    try:
        return part.read(kept)
    except ValidationError:
        log.warning("what job %s has found is not of this version: %s", row.id, part.__name__)
        return None


def has_expired(row: JobRow, now: datetime) -> bool:
    """Whether the lease of a running job has expired."""
    return row.lease_until is not None and row.lease_until < now


def touch(row: JobRow, now: datetime) -> None:
    """Mark a change that is visible to readers: raise the version."""
    row.version += 1
    row.updated_at = now


def close_cancelled(session: Session, row: JobRow, now: datetime) -> list[str]:
    """`close` a job that was cancelled."""
    found = "what it has found so far is kept" if row.failure else "it had found nothing yet"
    return close(
        session, row, now, Status.CANCELLED, Reason.INTERRUPTED, row.summary or f"The job was cancelled; {found}."
    )


def close(session: Session, row: JobRow, now: datetime, status: Status, reason: Reason, summary: str) -> list[str]:
    """End a job that no worker holds, with the verdict that it has reached, else as given; returns the hashes of blobs that may be
    unused now."""
    earned = _earned(session, row)
    if earned is None:
        row.status, row.reason, row.summary = status, reason, summary
        replaced = artifacts.restate(session, row, now)
        # The row is newer than the report if the worker died between writing the two.
        found = {"failure": row.failure, "culprits": [row.culprit] if row.culprit else [], "status": status}
        report = {**(artifacts.report_of(session, row) or {}), **found}
    else:
        row.status, row.reason = earned["status"], earned["reason"]
        artifacts.follow(row, earned)
        replaced, report = [], earned  # its texts, if they exist by now, are equal
    row.worker = row.lease_until = None
    row.finished_at = now
    touch(row, now)
    grouping.assign(session, row, report, now)
    announce_end(session, row, now)
    return replaced


def _earned(session: Session, row: JobRow) -> dict[str, Any] | None:
    """The stored report of a job that has reached its verdict, which it keeps however it ends; else None."""
    if row.progress.get("decided") is not True:
        return None
    report = artifacts.report_of(session, row)
    return report if report is not None and report.get("status") in _VERDICTS else None


def _in(projects: Collection[str]) -> ColumnElement[bool]:
    return JobRow.project_number.in_(select(ProjectRow.number).where(ProjectRow.name.in_(projects)))


def _matches(q: str) -> ColumnElement[bool]:
    columns = (JobRow.filename, JobRow.id, JobRow.summary, JobRow.signature)
    return or_(*(column.icontains(bounds.text(q, 200), autoescape=True) for column in columns))


def _encode_cursor(number: int) -> str:
    return base64.urlsafe_b64encode(f"before {number}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> int:
    try:
        word, number = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().split(" ")
        if word != "before" or not 0 < int(number) < 1 << 63:
            raise InvalidCursor
        return int(number)
    except (binascii.Error, ValueError):
        raise InvalidCursor from None
