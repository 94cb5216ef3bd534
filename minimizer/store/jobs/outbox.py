"""Messages to webhooks when a job ends. `webhooks` has the addresses, `messages` hands messages out for sending."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from minimizer.store.tables.models import DeliveryRow, FailureGroupRow, FailureMemberRow, JobRow, WebhookRow


def announce_end(session: Session, job: JobRow, now: datetime) -> None:
    """Add a message for every webhook of the job's project; called in the transaction that ends the job."""
    hooks = session.scalars(select(WebhookRow.id).where(WebhookRow.project_number == job.project_number)).all()
    if not hooks:
        return
    # A job that did not fail this time may still be in the group of an earlier run.
    group = (
        select(FailureGroupRow.signature)
        .join(FailureMemberRow, FailureMemberRow.group_number == FailureGroupRow.number)
        .where(FailureMemberRow.job_number == job.number)
    )
    body = json.dumps(
        {
            "event": "job.ended",
            "time": now.isoformat(),
            "job": {
                "id": job.id,
                "project": job.project.name,
                "filename": job.filename,
                "status": job.status,
                "reason": job.reason,
                "summary": job.summary,
                "kind": job.kind,
                "signature": job.signature,
                "group": session.scalar(group) if job.kind else None,
            },
        }
    )
    session.add_all(
        DeliveryRow(webhook_id=hook, job_id=job.id, body=body, attempts=0, created_at=now, next_at=now, answer="")
        for hook in hooks
    )
