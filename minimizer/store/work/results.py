"""Results of jobs: written by the worker that holds the claim (events, artifacts, report), and read by others."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from minimizer.report.model import Report
from minimizer.store.errors import ArtifactTooLarge, UnknownArtifact
from minimizer.store.jobs import artifacts, grouping
from minimizer.store.jobs.artifacts import REPORT
from minimizer.store.jobs.jobs import find, touch
from minimizer.store.jobs.outbox import announce_end
from minimizer.store.tables import blobs, bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import ArtifactRow, BlobRow, EventRecord, JobRow
from minimizer.store.views import ArtifactInfo, Claim, EventRow
from minimizer.store.work.leases import held
from minimizer.vocabulary import Kind

log = logging.getLogger(__name__)

MAX_ARTIFACT_BYTES = 256 << 20
"""Bytes of the largest accepted artifact."""
MAX_EVENTS = 20_000
"""Events that are stored of one job."""
MAX_SEQ = 2**31 - 1
"""The largest integer that PostgreSQL's INTEGER takes."""
MAX_REPORT_ITEMS = 10_000
"""Items of each list or dict in a stored report."""

_KINDS = frozenset(str(kind) for kind in Kind)


class Results:
    """The part of the store for the results of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_event(self, claim: Claim, type_: str, data: dict[str, Any]) -> None:
        """Add an event, and copy its step, progress, failure, culprit and reduction to the job's row.

        Beyond the limit on a job's events no more are stored, but the row is still updated.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        data = bounds.event_data(data)
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            if row.last_event < MAX_EVENTS:
                row.last_event += 1
                session.add(
                    EventRecord(
                        job_number=row.number, seq=row.last_event, type=bounds.text(type_, 32), time=now, data=data
                    )
                )
            _follow(row, type_, data)
            touch(row, now)

    def put_artifact(self, claim: Claim, name: str, content: bytes) -> None:
        """Store an artifact; one of the same name is replaced.

        Raises:
            ArtifactTooLarge: it is larger than the store accepts.
            LeaseLost: the job is not this worker's any more.
        """
        if len(content) > MAX_ARTIFACT_BYTES:
            raise ArtifactTooLarge(name, len(content), MAX_ARTIFACT_BYTES)
        packed = blobs.pack(content)
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            replaced = artifacts.put(session, row, name, packed, now)
            touch(row, now)
        blobs.collect(self._database, replaced)

    def discard_artifact(self, claim: Claim, name: str) -> None:
        """Delete an artifact, if it exists.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        with self._database.write() as session:
            row = held(session, claim)
            discarded = artifacts.discard(session, row, name)
            if discarded:
                touch(row, self._database.now(session))
        blobs.collect(self._database, discarded)

    def put_report(self, claim: Claim, report: Report) -> None:
        """Store the report so far. The job stays running, whatever the report's status is.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        written = _written(report)
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            replaced = _put_report(session, row, written, now)
            touch(row, now)
        blobs.collect(self._database, replaced)

    def finish(self, claim: Claim, report: Report) -> None:
        """End the job with the status of its report; the last write under a claim.

        Raises:
            LeaseLost: the job is not this worker's any more.
            ValueError: the report is not final.
        """
        if not report.status.is_final:
            raise ValueError(f"job {claim.job_id} cannot end as {report.status}")
        written = _written(report)
        with self._database.write() as session:
            row = held(session, claim)
            now = self._database.now(session)
            replaced = _put_report(session, row, written, now)
            row.status = report.status
            row.reason = report.reason
            row.lease_until = None
            row.finished_at = now
            grouping.assign(session, row, report.to_json(), now)
            touch(row, now)
            announce_end(session, row, now)
        blobs.collect(self._database, replaced)

    def events(self, job_id: str, after: int = 0, limit: int = 500) -> list[EventRow]:
        """The events of a job after a sequence number, in order."""
        with self._database.read() as session:
            number = find(session, job_id).number
            # An untrusted number may exceed the database's integers; no event has such a number.
            query = select(EventRecord).where(EventRecord.job_number == number, EventRecord.seq > min(after, MAX_SEQ))
            rows = session.scalars(query.order_by(EventRecord.seq).limit(limit))
            return [EventRow(row.seq, row.type, row.time, row.data) for row in rows]

    def artifacts(self, job_id: str) -> list[ArtifactInfo]:
        """The artifacts of a job, ordered by name."""
        with self._database.read() as session:
            number = find(session, job_id).number
            query = _ARTIFACTS.where(ArtifactRow.job_number == number).order_by(ArtifactRow.name)
            return [_info(row, size) for row, size in session.execute(query)]

    def artifact(self, job_id: str, name: str) -> tuple[ArtifactInfo, bytes]:
        """An artifact with its content.

        Raises:
            UnknownArtifact: the job has none of this name.
        """
        with self._database.read() as session:
            info = _find_artifact(session, job_id, name)
            return info, blobs.get(session, info.sha256)

    def artifact_info(self, job_id: str, name: str) -> ArtifactInfo:
        """An artifact without its content.

        Raises:
            UnknownArtifact: the job has none of this name.
        """
        with self._database.read() as session:
            return _find_artifact(session, job_id, name)

    def artifact_stream(self, job_id: str, name: str) -> tuple[ArtifactInfo, Iterator[bytes]]:
        """An artifact with its content in pieces.

        Raises:
            UnknownArtifact: the job has none of this name.
        """
        with self._database.read() as session:
            info = _find_artifact(session, job_id, name)
            return info, blobs.stream(session, info.sha256)

    def report(self, job_id: str) -> Report | None:
        """The report so far; ``None`` before the first one, or if another version wrote it in an unknown form."""
        try:
            _, content = self.artifact(job_id, REPORT)
        except UnknownArtifact:
            return None
        try:
            return Report.read(json.loads(content))
        except ValidationError:
            log.warning("the report of job %s is not of this version", job_id, exc_info=True)
            return None


_ARTIFACTS = select(ArtifactRow, BlobRow.size).join(BlobRow, BlobRow.sha256 == ArtifactRow.sha256)


class _Written(NamedTuple):
    """A report as it is stored: the artifact, and the values for the job's row."""

    whole: dict[str, Any]
    packed: blobs.Packed


def _written(report: Report) -> _Written:
    whole = bounds.plain(report.to_json(), items=MAX_REPORT_ITEMS)
    return _Written(whole, blobs.pack(json.dumps(whole, indent=1).encode() + b"\n"))


def _put_report(session: Session, row: JobRow, report: _Written, now: datetime) -> list[str]:
    artifacts.follow(row, report.whole)
    return artifacts.put(session, row, REPORT, report.packed, now)


def _find_artifact(session: Session, job_id: str, name: str) -> ArtifactInfo:
    number = find(session, job_id).number
    query = _ARTIFACTS.where(ArtifactRow.job_number == number, ArtifactRow.name == bounds.text(name, 255))
    found = session.execute(query).one_or_none()
    if found is None:
        raise UnknownArtifact(name)
    return _info(*found)


def _info(row: ArtifactRow, size: int) -> ArtifactInfo:
    return ArtifactInfo(row.name, size, row.sha256, row.media_type, row.created_at)


def _follow(row: JobRow, type_: str, data: dict[str, Any]) -> None:
    match type_, data:
        case "step", {"step": str(step), "state": "started"}:
            row.step = bounds.text(step, 32)
        case "progress", _:
            row.progress = data
            if data.get("skippable") != row.skip_requested:
                row.skip_requested = None  # that step has ended, and may be taken again
        case "failure", {"failure": {"kind": str(kind)} as failure} if kind in _KINDS:
            artifacts.keep_failure(row, failure)
        case "culprit", {"culprit": dict(culprit)}:
            row.culprit = culprit
