"""Who works: a row per worker process, for the status page and for `minimizer doctor`."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, select, update

from minimizer.store.database import Database
from minimizer.store.models import WorkerRecord
from minimizer.store.views import WorkerRow

_FORGET_AFTER = timedelta(days=1)


class Workers:
    """The part of the store that knows the worker processes."""

    _database: Database

    def register_worker(self, name: str, *, device: str, torch: str) -> None:
        """Say that a worker has started, and forget those that have been silent for a day."""
        with self._database.write() as session:
            now = self._database.now(session)
            session.execute(delete(WorkerRecord).where(WorkerRecord.last_seen < now - _FORGET_AFTER))
            session.merge(
                WorkerRecord(name=name, device=device, torch=torch, job_id=None, last_seen=now, started_at=now)
            )

    def worker_seen(self, name: str, job_id: str | None) -> None:
        """Say that a worker is alive, and what it is at."""
        with self._database.write() as session:
            seen = update(WorkerRecord).where(WorkerRecord.name == name)
            session.execute(seen.values(last_seen=self._database.now(session), job_id=job_id))

    def remove_worker(self, name: str) -> None:
        """Say that a worker has gone in good order."""
        with self._database.write() as session:
            session.execute(delete(WorkerRecord).where(WorkerRecord.name == name))

    def workers(self) -> list[WorkerRow]:
        """The workers that have registered, by name. Whether one is alive shows in ``last_seen``."""
        with self._database.read() as session:
            rows = session.scalars(select(WorkerRecord).order_by(WorkerRecord.name))
            return [
                WorkerRow(row.name, row.device, row.torch, row.job_id, row.last_seen, row.started_at) for row in rows
            ]
