"""Projects: own jobs, set their retention, and give access to their members."""

from __future__ import annotations

import re
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.store.errors import InvalidName, NameTaken, ProjectNotEmpty, UnknownProject
from minimizer.store.jobs.jobs import is_id
from minimizer.store.tables import blobs
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import ArtifactRow, BlobRow, JobRow, MembershipRow, ProjectRow, UserRow
from minimizer.store.views import Project
from minimizer.vocabulary import Status

DEFAULT_PROJECT = "default"

_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_FINAL = tuple(status for status in Status if status.is_final)


class Projects:
    """The part of the store for projects."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str) -> Project:
        """Add a project.

        Raises:
            InvalidName, NameTaken: choose another name.
        """
        check_name(name)
        try:
            with self._database.write() as session:
                row = ProjectRow(name=name, created_at=self._database.now(session))
                session.add(row)
                session.flush()
                return _project(row, ())
        except IntegrityError:
            raise NameTaken("project", name) from None

    def all(self) -> list[Project]:
        """All projects by name."""
        members: dict[int, list[str]] = {}
        with self._database.read() as session:
            pairs = select(MembershipRow.project_number, UserRow.name).join(
                UserRow, UserRow.number == MembershipRow.user_number
            )
            for number, user in session.execute(pairs.order_by(UserRow.name)):
                members.setdefault(number, []).append(user)
            rows = session.scalars(select(ProjectRow).order_by(ProjectRow.name))
            return [_project(row, members.get(row.number, ())) for row in rows]

    def keep(self, name: str, *, days: int | None, size: int | None) -> Project:
        """Set a project's retention: ``days`` that ended jobs are kept, ``size`` in bytes of scripts and artifacts; ``None``: no limit.

        Raises:
            UnknownProject: there is no such project.
        """
        with self._database.write() as session:
            row = find_project(session, name)
            row.keep_days, row.keep_bytes = days, size
            return _project(row, ())

    def delete(self, name: str) -> None:
        """Delete a project that has no jobs.

        Raises:
            ProjectNotEmpty: it still has jobs, or is the default project.
            UnknownProject: there is no such project.
        """
        try:
            with self._database.write() as session:
                row = find_project(session, name)
                if name == DEFAULT_PROJECT:
                    raise ProjectNotEmpty(name)
                session.execute(delete(ProjectRow).where(ProjectRow.number == row.number))
        except IntegrityError:
            raise ProjectNotEmpty(name) from None

    def of_job(self, job_id: str) -> str | None:
        """The name of a job's project, or ``None`` if there is no such job."""
        if not is_id(job_id):
            return None
        query = select(ProjectRow.name).join(JobRow, JobRow.project_number == ProjectRow.number)
        with self._database.read() as session:
            return session.scalars(query.where(JobRow.id == job_id)).one_or_none()

    def retire(self, limit: int = 100) -> list[str]:
        """Delete jobs beyond their project's retention in days or bytes; returns their ids.

        Pinned and open jobs are never deleted. To meet the limit in bytes, the oldest jobs go first.
        """
        limited = ProjectRow.keep_days.is_not(None) | ProjectRow.keep_bytes.is_not(None)
        with self._database.read() as session:
            if session.scalars(select(ProjectRow.number).where(limited).limit(1)).first() is None:
                return []
        with self._database.write() as session:
            now = self._database.now(session)
            doomed: dict[int, JobRow] = {}
            for project in session.scalars(select(ProjectRow).where(limited)).all():
                mine = select(JobRow).where(JobRow.project_number == project.number)
                disposable = mine.where(JobRow.pinned.is_(False), JobRow.status.in_(_FINAL)).order_by(JobRow.number)
                # Locked until deleted, so that nobody can pin or retry a job in between; jobs that others have locked are skipped.
                disposable = disposable.with_for_update(of=JobRow, skip_locked=True)
                if project.keep_days is not None:
                    before = now - timedelta(days=project.keep_days)
                    old = session.scalars(disposable.where(JobRow.finished_at < before).limit(limit))
                    doomed.update((row.number, row) for row in old)
                if project.keep_bytes is not None:
                    sizes = _sizes(session, project.number)
                    excess = sum(sizes.values()) - sum(sizes.get(number, 0) for number in doomed) - project.keep_bytes
                    for row in session.scalars(disposable.limit(limit)):
                        if excess <= 0:
                            break
                        if row.number not in doomed:
                            doomed[row.number] = row
                            excess -= sizes.get(row.number, 0)
            numbers = list(doomed)
            made = select(ArtifactRow.sha256).where(ArtifactRow.job_number.in_(numbers))
            shas = {
                *session.scalars(made),
                *(sha for row in doomed.values() for sha in (row.script_sha, row.archive_sha)),
            }
            ids = [row.id for row in doomed.values()]
            session.execute(delete(JobRow).where(JobRow.number.in_(numbers)))
        blobs.collect(self._database, [sha for sha in shas if sha])
        return ids

    def collect_garbage(self, limit: int = 1000) -> int:
        """Delete unreferenced blobs, which remain if a process is killed between two transactions; returns their number."""
        with self._database.read() as session:
            shas = blobs.unused(session, limit)
        blobs.collect(self._database, shas)
        return len(shas)


def find_project(session: Session, name: str) -> ProjectRow:
    """The row of a project.

    Raises:
        UnknownProject: there is no project of this name.
    """
    row = None
    if _NAME.fullmatch(name):
        row = session.scalars(select(ProjectRow).where(ProjectRow.name == name)).one_or_none()
    if row is None:
        raise UnknownProject(name)
    return row


def check_name(name: str) -> None:
    """Check that a user or a project may have this name.

    Raises:
        InvalidName: the name is not allowed.
    """
    if not _NAME.fullmatch(name):
        raise InvalidName(name)


def _project(row: ProjectRow, members: tuple[str, ...] | list[str]) -> Project:
    return Project(row.name, row.created_at, row.keep_days, row.keep_bytes, tuple(members))


def _sizes(session: Session, project_number: int) -> dict[int, int]:
    """Bytes of scripts and artifacts by job number; a blob that two jobs share counts for both."""
    made = (
        select(ArtifactRow.job_number, func.sum(BlobRow.size))
        .join(BlobRow, BlobRow.sha256 == ArtifactRow.sha256)
        .join(JobRow, JobRow.number == ArtifactRow.job_number)
        .where(JobRow.project_number == project_number)
        .group_by(ArtifactRow.job_number)
    )
    asked = (
        select(JobRow.number, func.sum(BlobRow.size))
        .join(BlobRow, (BlobRow.sha256 == JobRow.script_sha) | (BlobRow.sha256 == JobRow.archive_sha))
        .where(JobRow.project_number == project_number)
        .group_by(JobRow.number)
    )
    sizes: dict[int, int] = {}
    for query in (made, asked):
        for number, size in session.execute(query):
            sizes[number] = sizes.get(number, 0) + int(size)
    return sizes
