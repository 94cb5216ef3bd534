"""Worker records: a row for each worker process, for the status page and for `minimizer doctor`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import timedelta

from sqlalchemy import delete, func, select, update

from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import JobRow, ProjectRow, WorkerRecord
from minimizer.store.views import NO_GPU, Hardware, Waiting, WorkerRow
from minimizer.vocabulary import Status

_FORGET_AFTER = timedelta(days=1)
"""Silence after which a worker's row is deleted."""
SILENCE = timedelta(minutes=1)
"""A worker not seen for longer counts as gone, although its row is kept for a day."""


def can_take(devices: Collection[str], toolchains: Collection[str], needs: tuple[str | None, str | None]) -> bool:
    """Whether a worker with these devices and interpreters meets a job's ``needs`` (device, interpreter); ``None`` there: any."""
    device, toolchain = needs
    return device in (None, *devices) and toolchain in (None, *toolchains)


class Workers:
    """The part of the store for worker processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(
        self, name: str, *, device: str, torch: str, toolchains: Collection[str] = (), hardware: Hardware = NO_GPU
    ) -> None:
        """Record that a worker has started, and delete rows of workers that have been silent for a day."""
        with self._database.write() as session:
            now = self._database.now(session)
            session.execute(delete(WorkerRecord).where(WorkerRecord.last_seen < now - _FORGET_AFTER))
            session.merge(
                WorkerRecord(
                    name=name,
                    device=device,
                    torch=torch,
                    toolchains=",".join(toolchains),
                    hardware=bounds.plain(asdict(hardware)),
                    trouble="",
                    last_seen=now,
                    started_at=now,
                )
            )

    def seen(self, name: str, trouble: str = "") -> bool:
        """Record that a worker is alive; returns whether it is registered. One that was cut off for a day may have been deleted.

        Args:
            trouble: why it takes no jobs at present; empty if it does.
        """
        with self._database.write() as session:
            seen = update(WorkerRecord).where(WorkerRecord.name == name).returning(WorkerRecord.name)
            values = {"last_seen": self._database.now(session), "trouble": bounds.plain(trouble)}
            return session.scalars(seen.values(values)).one_or_none() is not None

    def remove(self, name: str) -> None:
        """Delete the row of a worker that has shut down."""
        with self._database.write() as session:
            session.execute(delete(WorkerRecord).where(WorkerRecord.name == name))

    def all(self) -> list[WorkerRow]:
        """The registered workers by name, dead ones included; see ``last_seen``."""
        running = (JobRow.worker == WorkerRecord.name) & (JobRow.status == Status.RUNNING)
        query = (
            select(WorkerRecord, ProjectRow.name, JobRow.id, JobRow.filename, JobRow.step)
            .outerjoin(JobRow, running)
            .outerjoin(ProjectRow, ProjectRow.number == JobRow.project_number)
            .order_by(WorkerRecord.name)
        )
        with self._database.read() as session:
            return [
                WorkerRow(
                    row.name,
                    row.device,
                    row.devices,
                    row.torch,
                    row.interpreters,
                    Hardware.from_json(row.hardware),
                    row.trouble,
                    job_id,
                    project,
                    filename,
                    step,
                    row.last_seen,
                    row.started_at,
                )
                for row, project, job_id, filename, step in session.execute(query)
            ]

    def waiting(self) -> list[Waiting]:
        """Numbers of waiting jobs by the device and interpreter that they need."""
        query = (
            select(JobRow.device, JobRow.toolchain, func.count(), func.min(JobRow.queued_at))
            .where(JobRow.status == Status.QUEUED)
            .group_by(JobRow.device, JobRow.toolchain)
        )
        with self._database.read() as session:
            return [Waiting(*row) for row in session.execute(query)]
