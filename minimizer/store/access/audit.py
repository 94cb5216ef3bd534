"""The audit log: who changed what, when, and from where. Append-only."""

from __future__ import annotations

from sqlalchemy import select

from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import AuditRow
from minimizer.store.views import AuditEntry


class Audit:
    """The part of the store for the audit log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, actor: str, action: str, subject: str = "", address: str = "") -> None:
        """Add an entry."""
        with self._database.write() as session:
            session.add(
                AuditRow(
                    time=self._database.now(session),
                    actor=bounds.text(actor, 100),
                    action=bounds.text(action, 64),
                    subject=bounds.text(subject, 255),
                    address=bounds.text(address, 64),
                )
            )

    def latest(self, limit: int = 100) -> list[AuditEntry]:
        """The latest entries, newest first."""
        query = select(AuditRow).order_by(AuditRow.number.desc()).limit(limit)
        with self._database.read() as session:
            return [
                AuditEntry(row.time, row.actor, row.action, row.subject, row.address) for row in session.scalars(query)
            ]
