"""Groups of equal failures, as users see and change them; `grouping` assigns jobs to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, or_, select, true, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.store import submissions
from minimizer.store.errors import NotInGroup, UnknownFailure
from minimizer.store.jobs import grouping
from minimizer.store.jobs.jobs import view
from minimizer.store.tables import bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import (
    FailureGroupRow,
    FailureHistoryRow,
    FailureMemberRow,
    JobRow,
    ProjectRow,
    RetestRow,
)
from minimizer.store.views import FailureGroup, FailureMember, HistoryLine, Job, NewJob, Submitter
from minimizer.vocabulary import Kind, Status

MAX_GROUPS = 100
"""Default number of groups in one answer."""
MAX_MEMBERS = 200
"""Jobs, or history lines, of a group in one answer."""
_HAS_FAILED = JobRow.kind.is_not(None)
"""Condition for jobs shown in a group: a retried job keeps its membership, but is hidden until it has failed again."""

Projects = Collection[str] | None
"""Names of the projects to which a query is restricted; ``None``: all."""


class Groups:
    """The part of the store for groups of equal failures."""

    def __init__(self, database: Database, max_queued_jobs: int) -> None:
        self._database = database
        self._max_queued_jobs = max_queued_jobs

    def newest(
        self,
        limit: int = MAX_GROUPS,
        projects: Projects = None,
        *,
        kind: Kind | None = None,
        q: str | None = None,
    ) -> list[FailureGroup]:
        """Groups that have jobs, ordered by their newest job, newest first.

        ``q`` is searched in the signature, the operators, the message, the note and the issue's URL.
        """
        query = _newest_first(projects)
        if kind is not None:
            query = query.where(FailureGroupRow.kind == kind)
        if q:
            query = query.where(_matches(q))
        with self._database.read() as session:
            return [_group(session, row) for row in session.scalars(query.limit(limit))]

    def get(self, signature: str, projects: Projects = None) -> FailureGroup:
        """One group.

        Raises:
            UnknownFailure: there is no group of this name in these projects.
        """
        with self._database.read() as session:
            return _group(session, _find(session, signature, projects))

    def of_jobs(self, job_ids: Collection[str]) -> dict[str, str]:
        """Group signatures by job id, for those of these jobs that are in a group."""
        query = (
            select(JobRow.id, FailureGroupRow.signature)
            .join(FailureMemberRow, FailureMemberRow.job_number == JobRow.number)
            .join(FailureGroupRow, FailureGroupRow.number == FailureMemberRow.group_number)
            .where(JobRow.id.in_(job_ids), _HAS_FAILED)
        )
        with self._database.read() as session:
            return {row.id: row.signature for row in session.execute(query)}

    def members(self, signature: str, projects: Projects = None) -> list[FailureMember]:
        """The newest jobs of a group, at most `MAX_MEMBERS`, each with the reason for its membership."""
        with self._database.read() as session:
            group = _find(session, signature, projects)
            query = (
                select(JobRow, FailureMemberRow.because)
                .join(FailureMemberRow, FailureMemberRow.job_number == JobRow.number)
                .where(FailureMemberRow.group_number == group.number, _HAS_FAILED)
                .order_by(JobRow.number.desc())
            )
            return [FailureMember(view(row), because) for row, because in session.execute(query.limit(MAX_MEMBERS))]

    def history(self, signature: str, projects: Projects = None) -> list[HistoryLine]:
        """The changes of a group, newest first."""
        with self._database.read() as session:
            group = _find(session, signature, projects)
            query = select(FailureHistoryRow).where(FailureHistoryRow.group_number == group.number)
            rows = session.scalars(query.order_by(FailureHistoryRow.number.desc()).limit(MAX_MEMBERS))
            return [HistoryLine(row.time, row.actor, row.what) for row in rows]

    def describe(
        self,
        signature: str,
        actor: str,
        *,
        note: str | None = None,
        issue_url: str | None = None,
        fixed_in: str | None = None,
        projects: Projects = None,
    ) -> FailureGroup:
        """Set a group's note, issue and fixed version; ``None`` leaves a field unchanged, an empty string clears it."""
        with self._database.write() as session:
            group, now = _find(session, signature, projects), self._database.now(session)
            for name, value in (("note", note), ("issue_url", issue_url), ("fixed_in", fixed_in)):
                if value is not None and value != (getattr(group, name) or ""):
                    setattr(group, name, bounds.text(value) or (None if name == "fixed_in" else ""))
                    grouping.note(session, group.number, actor, f"{name}: {value or 'removed'}", now)
            session.flush()
            return _group(session, group)

    def merge(self, signature: str, other: str, actor: str, projects: Projects = None) -> FailureGroup:
        """Move all jobs and the history of ``other`` into a group of the same project, and delete ``other``.

        Raises:
            UnknownFailure: one of them does not exist, or they belong to different projects.
        """
        with self._database.write() as session:
            group = _find(session, signature, projects)
            gone = _find(session, other, [session.get_one(ProjectRow, group.project_number).name])
            if group.number == gone.number:
                return _group(session, group)
            if gone.signature != other:  # already merged, and this is another group that has its fingerprint
                raise UnknownFailure(other)
            now = self._database.now(session)
            _touch(
                session, select(FailureMemberRow.job_number).where(FailureMemberRow.group_number == gone.number), now
            )
            # Lock the group: a job that ends now would otherwise join a group that is about to be deleted.
            locked = select(FailureGroupRow.number).where(FailureGroupRow.number == gone.number).with_for_update()
            if session.scalars(locked).one_or_none() is None:
                raise UnknownFailure(other)
            moved = update(FailureMemberRow).where(FailureMemberRow.group_number == gone.number)
            session.execute(
                moved.values(
                    group_number=group.number, because=bounds.text(f"merged with {gone.signature} by {actor}", 255)
                )
            )
            for table in (FailureHistoryRow, RetestRow):
                session.execute(
                    update(table).where(table.group_number == gone.number).values(group_number=group.number)
                )
            group.note = "\n".join(filter(None, (group.note, gone.note)))
            group.issue_url = group.issue_url or gone.issue_url
            grouping.note(session, group.number, actor, f"merged with {gone.signature}", now)
            session.delete(gone)
            session.flush()
            return _group(session, group)

    def split(self, signature: str, job_ids: Sequence[str], actor: str, projects: Projects = None) -> FailureGroup:
        """Move jobs of a group into a new one. Later jobs join the group of the newest job with their fingerprint.

        Raises:
            NotInGroup: no jobs are named, one of them is not in the group, or none would remain.
            UnknownFailure: there is no such group.
        """
        with self._database.write() as session:
            group, now = _find(session, signature, projects), self._database.now(session)
            in_group = (
                select(FailureMemberRow, JobRow.id)
                .join(JobRow, JobRow.number == FailureMemberRow.job_number)
                .where(FailureMemberRow.group_number == group.number)
            )
            members = {job_id: member for member, job_id in session.execute(in_group)}
            if not job_ids or not set(job_ids) < set(members):
                raise NotInGroup(signature)
            _touch(session, select(JobRow.number).where(JobRow.id.in_(job_ids)), now)
            first = members[job_ids[0]]
            new = grouping.new_group(session, group.project_number, first.fingerprint, group.kind, group.features, now)
            for job_id in job_ids:
                members[job_id].group_number = new.number
                members[job_id].because = bounds.text(f"split from {group.signature} by {actor}", 255)
            jobs = ", ".join(job_ids)
            grouping.note(session, group.number, actor, f"split: {jobs} went to {new.signature}", now)
            grouping.note(session, new.number, actor, f"split from {group.signature}: {jobs}", now)
            session.flush()
            return _group(session, new)

    def retest(self, signature: str, job: NewJob, by: Submitter, actor: str, projects: Projects = None) -> Job:
        """Queue a job that retests a group's failure; when it ends, the result is recorded in the group.

        Job and link are written in one transaction, since a worker may finish the job before a second one.

        Raises:
            QueueFull, QuotaExceeded: too many jobs are open.
            UnknownFailure: there is no such group.
        """
        asked = submissions.prepare(job)
        try:
            return self._retest(signature, asked, by, actor, projects)
        except IntegrityError:  # the group was merged meanwhile; `_find` now returns the merged one
            return self._retest(signature, asked, by, actor, projects)

    def _retest(
        self, signature: str, asked: submissions.Prepared, by: Submitter, actor: str, projects: Projects
    ) -> Job:
        with self._database.write() as session:
            group, now = _find(session, signature, projects), self._database.now(session)
            project = session.get_one(ProjectRow, group.project_number)
            row = submissions.queue(session, asked, project, by, self._max_queued_jobs, now)
            session.add(RetestRow(job_number=row.number, group_number=group.number))
            grouping.note(session, group.number, actor, f"retest: job {row.id}", now)
            return view(row)


def _in(projects: Projects) -> ColumnElement[bool]:
    if projects is None:
        return true()
    names = [bounds.text(name, 64) for name in projects]  # an admin's project names are not validated here
    return FailureGroupRow.project_number.in_(select(ProjectRow.number).where(ProjectRow.name.in_(names)))


def _matches(q: str) -> ColumnElement[bool]:
    features = (FailureGroupRow.features["operators"].as_string(), FailureGroupRow.features["message"].as_string())
    columns = (FailureGroupRow.signature, FailureGroupRow.note, FailureGroupRow.issue_url, *features)
    return or_(*(column.icontains(bounds.text(q, 200), autoescape=True) for column in columns))


def _newest_first(projects: Projects) -> Select[FailureGroupRow]:
    newest = func.max(FailureMemberRow.job_number)
    return (
        select(FailureGroupRow)
        .join(FailureMemberRow, FailureMemberRow.group_number == FailureGroupRow.number)
        .join(JobRow, JobRow.number == FailureMemberRow.job_number)
        .where(_in(projects), _HAS_FAILED)
        .group_by(FailureGroupRow.number)
        .order_by(newest.desc())
    )


def _find(session: Session, signature: str, projects: Projects) -> FailureGroupRow:
    """Find a group by its name, or by the fingerprint of one of its jobs, so that a merged group is found by its old name."""
    name = bounds.text(signature, 80)
    query = select(FailureGroupRow).where(FailureGroupRow.signature == name, _in(projects))
    group = session.scalars(query.order_by(FailureGroupRow.number.desc()).limit(1)).first()
    if group is None:
        by_member = (
            select(FailureGroupRow)
            .join(FailureMemberRow, FailureMemberRow.group_number == FailureGroupRow.number)
            .where(FailureMemberRow.fingerprint == name, _in(projects))
        )
        group = session.scalars(by_member.order_by(FailureMemberRow.job_number.desc()).limit(1)).first()
    if group is None:
        raise UnknownFailure(signature)
    return group


def _touch(session: Session, jobs: Select[int], now: datetime) -> None:
    """Mark jobs as changed before their group changes, since readers of a job see its group.

    Jobs are locked before groups, in the same order as when a job ends, to avoid a deadlock.
    """
    change = update(JobRow).where(JobRow.number.in_(jobs)).values(version=JobRow.version + 1, updated_at=now)
    session.execute(change, execution_options={"synchronize_session": False})


def _group(session: Session, group: FailureGroupRow) -> FailureGroup:
    in_group = (
        JobRow.number.in_(select(FailureMemberRow.job_number).where(FailureMemberRow.group_number == group.number)),
        _HAS_FAILED,
    )
    figures = select(func.count(), func.min(JobRow.created_at), func.max(JobRow.created_at), func.max(JobRow.number))
    jobs, first_seen, last_seen, newest = session.execute(figures.where(*in_group)).one()
    # The smallest verified repro; among equals the newest.
    size = func.coalesce(JobRow.reduction["nodes_after"].as_integer(), 0)
    done = select(JobRow).where(*in_group, JobRow.status == Status.MINIMIZED).order_by(size, JobRow.number.desc())
    best = session.scalars(done.limit(1)).first()
    return FailureGroup(
        signature=group.signature,
        kind=Kind(group.kind),
        project=session.get_one(ProjectRow, group.project_number).name,
        jobs=jobs,
        first_seen=first_seen or group.created_at,
        last_seen=last_seen or group.created_at,
        latest=None if newest is None else view(session.get_one(JobRow, newest)),
        best=None if best is None else view(best),
        operators=tuple(group.features["operators"]),
        message=group.features["message"],
        note=group.note,
        issue_url=group.issue_url,
        fixed_in=group.fixed_in,
    )
