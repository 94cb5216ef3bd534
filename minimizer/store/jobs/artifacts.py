"""Artifacts of a job as rows, and keeping the stored report consistent with the job's row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from minimizer.store.tables import blobs, bounds
from minimizer.store.tables.models import ArtifactRow, JobRow
from minimizer.vocabulary import Status

REPORT = "report.json"
FOR_PEOPLE = ("report.md", "issue.md")

_MEDIA_TYPES = {
    ".json": "application/json",
    ".log": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".py": "text/x-python; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".zip": "application/zip",
}


def put(session: Session, row: JobRow, name: str, content: blobs.Packed, now: datetime) -> list[str]:
    """Store an artifact; returns the hashes of blobs that may be unused now."""
    name = bounds.text(name, 255)
    sha = blobs.put(session, content)
    known = session.get(ArtifactRow, (row.number, name))
    replaced = [known.sha256] if known is not None and known.sha256 != sha else []
    media_type = next(
        (kind for suffix, kind in _MEDIA_TYPES.items() if name.endswith(suffix)), "application/octet-stream"
    )
    session.merge(ArtifactRow(job_number=row.number, name=name, sha256=sha, media_type=media_type, created_at=now))
    return replaced


def discard(session: Session, row: JobRow, name: str) -> list[str]:
    """Delete an artifact, if it exists; returns the hashes of blobs that may be unused now."""
    known = session.get(ArtifactRow, (row.number, bounds.text(name, 255)))
    if known is None:
        return []
    session.delete(known)
    return [known.sha256]


def report_of(session: Session, row: JobRow) -> dict[str, Any] | None:
    """The report so far, or ``None`` before the first one."""
    known = session.get(ArtifactRow, (row.number, REPORT))
    return None if known is None else dict(json.loads(blobs.get(session, known.sha256)))


def restate(session: Session, row: JobRow, now: datetime) -> list[str]:
    """Update the stored report of a job that ended, or was queued again, without its worker.

    Results so far are kept. The report's texts cannot be rendered here, so texts that no longer match are deleted.
    Returns the hashes of blobs that may be unused now.
    """
    report = report_of(session, row)
    if report is None:
        return []
    status = row.status if Status(row.status).is_final else Status.RUNNING
    report |= {"status": status, "reason": row.reason, "summary": row.summary}
    content = blobs.pack(json.dumps(report, indent=1).encode() + b"\n")
    gone = [sha for name in FOR_PEOPLE for sha in discard(session, row, name)]
    return [*gone, *put(session, row, REPORT, content, now)]


def follow(row: JobRow, report: Mapping[str, Any]) -> None:
    """Copy a report's summary of the job's result to the row."""
    row.summary = report["summary"]
    keep_failure(row, report["failure"])
    row.culprit = next(iter(report["culprits"]), None)
    row.reduction = report["reduction"]


def keep_failure(row: JobRow, failure: dict[str, Any] | None) -> None:
    """Copy a failure to the row, with what jobs are looked for by."""
    row.failure = failure
    row.kind = str(failure["kind"]) if failure else None
    row.signature = bounds.text(str(failure.get("signature", "")), 255) if failure else None
