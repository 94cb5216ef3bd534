"""The files of a job as rows, and the report that has to say what the job's own row says."""

from __future__ import annotations

import json
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
    """Keep a file; returns the blobs that may be of no use any more."""
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
    """Forget a file, if there is one of this name; returns the blobs that may be of no use any more."""
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
    """Bring the report in line with a job that ended, or waits again, without its worker.

    What was found so far stays. The texts for people cannot be written here, so those that say something else go.
    Returns the blobs that may be of no use any more.
    """
    report = report_of(session, row)
    if report is None:
        return []
    status = row.status if Status(row.status).is_final else Status.RUNNING
    report |= {"status": status, "reason": row.reason, "summary": row.summary}
    content = blobs.pack(json.dumps(report, indent=1).encode() + b"\n")
    gone = [sha for name in FOR_PEOPLE for sha in discard(session, row, name)]
    return [*gone, *put(session, row, REPORT, content, now)]
