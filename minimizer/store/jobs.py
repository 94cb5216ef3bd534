"""The owner's side of a job: submit, look, cancel, retry, delete."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.options import Options
from minimizer.store import blobs, bounds
from minimizer.store.database import Database
from minimizer.store.errors import IdempotencyConflict, InvalidCursor, JobActive, QueueFull, UnknownJob
from minimizer.store.models import ArtifactRow, EventRecord, IdempotencyRow, JobRow
from minimizer.store.views import FailureGroup, Job
from minimizer.types import Kind, Reason, Status

MAX_PAGE = 200

_JOB_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,31}")


class Jobs:
    """The part of the store that the web side uses."""

    _database: Database
    _max_queued_jobs: int

    def submit(
        self, script: bytes, filename: str, options: Options, idempotency_key: str | None = None
    ) -> tuple[Job, bool]:
        """Queue a job; returns it, and whether it is new rather than the one that this key has made before.

        Raises:
            IdempotencyConflict: the key was used for another script, name or options.
            QueueFull: too many jobs wait.
        """
        try:
            return self._submit(script, filename, options, idempotency_key)
        except IntegrityError:
            if idempotency_key is None:
                raise
            # The same key came twice at the same moment and the other was first: now its job is there to be found.
            return self._submit(script, filename, options, idempotency_key)

    def _submit(self, script: bytes, filename: str, options: Options, key: str | None) -> tuple[Job, bool]:
        payload_sha = _payload_sha(script, filename, options)
        with self._database.write() as session:
            if key is not None and (known := session.get(IdempotencyRow, _sha(key))) is not None:
                if known.payload_sha != payload_sha:
                    raise IdempotencyConflict
                return view(session.get_one(JobRow, known.job_number)), False
            self._refuse_if_full(session)
            now = self._database.now(session)
            row = _new_job(now, bounds.text(filename, 255), options, blobs.put(session, script))
            session.add(row)
            session.flush()
            if key is not None:
                session.add(IdempotencyRow(key_sha=_sha(key), payload_sha=payload_sha, job_number=row.number))
            return view(row), True

    def _refuse_if_full(self, session: Session) -> None:
        # Two submissions at the same moment may both see the last free place: the limit protects us, it is no promise.
        waiting = select(func.count()).select_from(JobRow).where(JobRow.status == Status.QUEUED)
        if session.execute(waiting).scalar_one() >= self._max_queued_jobs:
            raise QueueFull(self._max_queued_jobs)

    def job(self, job_id: str) -> Job:
        """A job as it stands.

        Raises:
            UnknownJob: no job has this id.
        """
        with self._database.read() as session:
            return view(find(session, job_id))

    def jobs(
        self,
        *,
        status: Status | None = None,
        kind: Kind | None = None,
        signature: str | None = None,
        q: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> tuple[list[Job], str | None]:
        """A page of jobs, the newest first, and the cursor of the next page if there is one.

        ``q`` is looked for in the file name, the id, the summary and the failure's signature.

        Raises:
            InvalidCursor: the cursor is not one that an earlier page has given.
        """
        query = select(JobRow).order_by(JobRow.number.desc())
        if status is not None:
            query = query.where(JobRow.status == status)
        if kind is not None:
            query = query.where(JobRow.kind == kind)
        if signature is not None:
            query = query.where(JobRow.signature == bounds.text(signature, 255))
        if q:
            query = query.where(_matches(q))
        if cursor is not None:
            query = query.where(JobRow.number < _decode_cursor(cursor))
        limit = max(1, min(limit, MAX_PAGE))
        with self._database.read() as session:
            rows = session.scalars(query.limit(limit + 1)).all()
            page = [view(row) for row in rows[:limit]]
            more = len(rows) > limit
            return page, _encode_cursor(rows[limit - 1].number) if more else None

    def failures(self, limit: int = 100) -> list[FailureGroup]:
        """Jobs grouped by what they failed with, the group with the newest job first."""
        newest = func.max(JobRow.number).label("newest")
        groups = (
            select(newest, func.count().label("jobs"), func.min(JobRow.created_at).label("first_seen"))
            .where(JobRow.signature.is_not(None), JobRow.signature != "", JobRow.kind.is_not(None))
            .group_by(JobRow.signature, JobRow.kind)
            .subquery()
        )
        query = (
            select(JobRow, groups.c.jobs, groups.c.first_seen)
            .join(groups, JobRow.number == groups.c.newest)
            .order_by(groups.c.newest.desc())
            .limit(limit)
        )
        with self._database.read() as session:
            return [
                FailureGroup(row.signature or "", Kind(row.kind or ""), count, first_seen, row.created_at, view(row))
                for row, count, first_seen in session.execute(query)
            ]

    def versions(self, job_ids: Collection[str]) -> Mapping[str, int]:
        """The versions of those of the jobs that exist: one cheap query for everybody who waits for a change."""
        query = select(JobRow.id, JobRow.version).where(JobRow.id.in_(filter(is_id, job_ids)))
        with self._database.read() as session:
            return {row.id: row.version for row in session.execute(query)}

    def counts(self) -> dict[Status, int]:
        """How many jobs there are in each status, zeros included."""
        query = select(JobRow.status, func.count()).group_by(JobRow.status)
        with self._database.read() as session:
            found = {Status(status): count for status, count in session.execute(query)}
        return {status: found.get(status, 0) for status in Status}

    def script(self, job_id: str) -> bytes:
        """The script as it was submitted."""
        with self._database.read() as session:
            return blobs.get(session, find(session, job_id).script_sha)

    def request_cancel(self, job_id: str) -> Job:
        """Cancel a waiting job at once and ask for the end of a running one; a job that has ended stays as it is."""
        with self._changing(job_id) as (row, now):
            match Status(row.status):
                case Status.QUEUED:
                    close_cancelled(row, now)
                case Status.RUNNING if not row.cancel_requested:
                    row.cancel_requested = True
                    touch(row, now)
        return view(row)

    def retry(self, job_id: str) -> Job:
        """Queue a job that has ended once more, without what it has found; one that has not ended stays as it is.

        Raises:
            QueueFull: too many jobs wait.
        """
        shas: list[str] = []
        with self._changing(job_id) as (row, now):
            if Status(row.status).is_final:
                session = Session.object_session(row)
                assert session is not None
                self._refuse_if_full(session)
                shas = _forget_results(session, row)
                row.queued_at = row.rung_at = now
                row.status = Status.QUEUED
                touch(row, now)
        blobs.collect(self._database, shas)
        return view(row)

    def delete(self, job_id: str) -> None:
        """Delete a job and all that it has made.

        Raises:
            JobActive: it is running; cancel it first.
        """
        with self._database.write() as session:
            row = find(session, job_id, lock=True)
            if row.status == Status.RUNNING:
                raise JobActive(job_id)
            made = select(ArtifactRow.sha256).where(ArtifactRow.job_number == row.number)
            shas = {row.script_sha, *session.scalars(made)}
            session.execute(delete(JobRow).where(JobRow.number == row.number))
        blobs.collect(self._database, shas)

    @contextmanager
    def _changing(self, job_id: str) -> Iterator[tuple[JobRow, datetime]]:
        with self._database.write() as session:
            yield find(session, job_id, lock=True), self._database.now(session)


def is_id(job_id: str) -> bool:
    """Whether a job may have this id."""
    return _JOB_ID.fullmatch(job_id) is not None


def find(session: Session, job_id: str, *, lock: bool = False) -> JobRow:
    """The row of a job.

    Raises:
        UnknownJob: no job has this id.
    """
    row = None
    # An id from outside may hold what PostgreSQL does not even take as a parameter.
    if is_id(job_id):
        query = select(JobRow).where(JobRow.id == job_id)
        row = session.scalars(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise UnknownJob(job_id)
    return row


def view(row: JobRow) -> Job:
    """The row as a value."""
    return Job(
        id=row.id,
        status=Status(row.status),
        reason=Reason(row.reason) if row.reason else None,
        step=row.step,
        progress=row.progress,
        filename=row.filename,
        options=Options.model_validate(row.options),
        script_sha=row.script_sha,
        attempt=row.attempt,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        updated_at=row.updated_at,
        worker=row.worker,
        failure=row.failure,
        culprit=row.culprit,
        reduction=row.reduction,
        summary=row.summary,
        version=row.version,
        cancel_requested=row.cancel_requested,
    )


def touch(row: JobRow, now: datetime) -> None:
    """Mark a change that readers can see."""
    row.version += 1
    row.updated_at = now


def close_cancelled(row: JobRow, now: datetime) -> None:
    """End a job that its owner has cancelled and that no worker is at."""
    row.status = Status.CANCELLED
    row.reason = Reason.INTERRUPTED
    row.summary = row.summary or "The job was cancelled before it found anything."
    row.worker = row.lease_until = None
    row.finished_at = now
    touch(row, now)


def _new_job(now: datetime, filename: str, options: Options, script_sha: str) -> JobRow:
    return JobRow(
        id=_new_id(),
        filename=filename,
        options=options.model_dump(mode="json"),
        script_sha=script_sha,
        status=Status.QUEUED,
        progress={},
        cancel_requested=False,
        version=1,
        last_event=0,
        fence=0,
        attempt=0,
        created_at=now,
        queued_at=now,
        rung_at=now,
        updated_at=now,
        summary="",
    )


def _forget_results(session: Session, row: JobRow) -> list[str]:
    """Empty a job for its next run. Fence, event numbers and version go on rising: somebody may still hold old ones."""
    made = select(ArtifactRow.sha256).where(ArtifactRow.job_number == row.number)
    shas = list(session.scalars(made))
    session.execute(delete(ArtifactRow).where(ArtifactRow.job_number == row.number))
    session.execute(delete(EventRecord).where(EventRecord.job_number == row.number))
    row.reason = row.step = row.kind = row.signature = None
    row.failure = row.culprit = row.reduction = None
    row.started_at = row.finished_at = row.worker = None
    row.progress = {}
    row.summary = ""
    row.attempt = 0
    row.cancel_requested = False
    return shas


def _new_id() -> str:
    while (job_id := secrets.token_urlsafe(9)).startswith("-"):  # it would be taken for an option
        pass
    return job_id


def _sha(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _payload_sha(script: bytes, filename: str, options: Options) -> str:
    asked: dict[str, Any] = {"filename": filename, "options": options.model_dump(mode="json")}
    return hashlib.sha256(script + b"\0" + json.dumps(asked, sort_keys=True).encode()).hexdigest()


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
