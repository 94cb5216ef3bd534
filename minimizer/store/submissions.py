"""Submission of jobs: one or many in a transaction, once per idempotency key, once per question, within the limits."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minimizer.options import Options
from minimizer.store.access.projects import DEFAULT_PROJECT, find_project
from minimizer.store.errors import IdempotencyConflict, JobActive, QueueFull, QuotaExceeded
from minimizer.store.jobs import artifacts
from minimizer.store.jobs.jobs import find, touch, view
from minimizer.store.tables import blobs, bounds
from minimizer.store.tables.database import Database
from minimizer.store.tables.models import (
    ArtifactRow,
    EventRecord,
    IdempotencyRow,
    JobRow,
    ProjectRow,
    UserRow,
    WorkerRecord,
)
from minimizer.store.views import Job, NewJob, Submitter
from minimizer.store.work.workers import SILENCE, can_take
from minimizer.vocabulary import Status

_OPEN = (Status.QUEUED, Status.RUNNING)
# Final states whose job answers a repeated question. Jobs that ended otherwise do not: they were stopped, or the machine failed.
_ANSWERS = (Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL)


class Submissions:
    """The part of the store that accepts jobs."""

    def __init__(self, database: Database, max_queued_jobs: int) -> None:
        self._database = database
        self._max_queued_jobs = max_queued_jobs

    def submit(
        self,
        script: bytes,
        filename: str,
        options: Options,
        idempotency_key: str | None = None,
        *,
        project: str = DEFAULT_PROJECT,
    ) -> tuple[Job, bool]:
        """Queue one job, even if the same question was asked before; see `submit_many`."""
        return self.submit_many([NewJob(script, filename, options)], idempotency_key, project=project, force=True)[0]

    def submit_many(
        self,
        jobs: Sequence[NewJob],
        idempotency_key: str | None = None,
        *,
        project: str = DEFAULT_PROJECT,
        by: Submitter = Submitter(),  # noqa: B008 - frozen
        force: bool = False,
    ) -> list[tuple[Job, bool]]:
        """Queue all of the jobs or none.

        Returns each job and whether it is new. It is not new if this idempotency key has created it before, or, without
        ``force``, if the project has a job with the same question (script, name and options) that is open or ended with
        an answer, and the workers that could take it still have the same torch.

        Raises:
            IdempotencyConflict: the key was used for another script, name or options.
            QueueFull: too many jobs wait.
            QuotaExceeded: too many jobs of this submitter are open.
            UnknownProject: there is no such project.
        """
        asked = [prepare(job) for job in jobs]
        try:
            return self._all_or_none(asked, idempotency_key, project, by, force)
        except IntegrityError:
            if idempotency_key is None:
                raise
            # The same key was submitted concurrently and the other transaction won: its job can be found now.
            return self._all_or_none(asked, idempotency_key, project, by, force)

    def retry(self, job_id: str, budget: int | None = None, *, max_open_jobs: int | None = None) -> Job:
        """Queue an ended job again; a waiting job is unchanged.

        Args:
            budget: seconds for the next run, which then continues from the last one's checkpoint, with its results kept.
                If None, all results are deleted and the job starts from the beginning.
            max_open_jobs: limit on open jobs of its submitter, who stays the same whoever retries it.

        Raises:
            JobActive: it is running; cancel it first.
            QueueFull: too many jobs wait.
            QuotaExceeded: too many jobs of its submitter are open.
            UnknownJob: there is no such job.
        """
        shas: list[str] = []
        with self._database.write() as session:
            row = find(session, job_id, lock=True)
            if row.status == Status.RUNNING:
                raise JobActive(job_id, "run it again")
            if Status(row.status).is_final:
                now = self._database.now(session)
                refuse_if_full(session, self._max_queued_jobs)
                _refuse_over_quota(session, Submitter(row.submitted_by, max_open_jobs))
                _forget_run(session, row)
                if budget is None:
                    shas = _forget_results(session, row)
                else:
                    row.options = {**row.options, "budget": budget}
                row.question_sha = _question_of(session, row)  # the budget is part of the question
                row.queued_at = row.rung_at = now
                row.status = Status.QUEUED
                touch(row, now)
                shas += artifacts.restate(session, row, now)
        blobs.collect(self._database, shas)
        return view(row)

    def _all_or_none(
        self, jobs: Sequence[Prepared], key: str | None, project: str, by: Submitter, force: bool
    ) -> list[tuple[Job, bool]]:
        with self._database.write() as session:
            home = find_project(session, project)
            if not force:  # lock: otherwise two concurrent equal questions would both be queued (PostgreSQL)
                session.execute(
                    select(ProjectRow.number).where(ProjectRow.number == home.number).with_for_update(key_share=True)
                )
            now = self._database.now(session)
            return [
                self._find_or_queue(
                    session, job, None if key is None else _key_sha(key, index, home, by), home, by, force, now
                )
                for index, job in enumerate(jobs)
            ]

    def _find_or_queue(
        self,
        session: Session,
        job: Prepared,
        key_sha: str | None,
        project: ProjectRow,
        by: Submitter,
        force: bool,
        now: datetime,
    ) -> tuple[Job, bool]:
        if key_sha is not None and (known := session.get(IdempotencyRow, key_sha)) is not None:
            if known.payload_sha != job.question_sha:
                raise IdempotencyConflict
            return view(session.get_one(JobRow, known.job_number)), False
        row = None if force else _same_question(session, job.question_sha, project, now)
        created = row is None
        if row is None:
            row = queue(session, job, project, by, self._max_queued_jobs, now)
        if key_sha is not None:
            session.add(IdempotencyRow(key_sha=key_sha, payload_sha=job.question_sha, job_number=row.number))
            session.flush()
        return view(row), created


class Prepared(NamedTuple):
    """A new job, with all work done that needs no transaction."""

    job: NewJob
    question_sha: str
    script: blobs.Packed
    archive: blobs.Packed | None


def prepare(job: NewJob) -> Prepared:
    """Hash and compress a job's content, before the transaction of `queue`."""
    archive = None if job.archive is None else blobs.pack(job.archive)
    options = job.options.model_dump(mode="json")
    question = _question_sha(job.script, job.filename, options, None if archive is None else archive.sha256)
    return Prepared(job, question, blobs.pack(job.script), archive)


def queue(
    session: Session, job: Prepared, project: ProjectRow, by: Submitter, max_queued_jobs: int, now: datetime
) -> JobRow:
    """Add a waiting job.

    Raises:
        QueueFull: too many jobs wait.
        QuotaExceeded: too many jobs of this submitter are open.
    """
    refuse_if_full(session, max_queued_jobs)
    _refuse_over_quota(session, by)
    row = _new_job(job.job, now)
    row.question_sha = job.question_sha
    row.script_sha = blobs.put(session, job.script)
    row.archive_sha = None if job.archive is None else blobs.put(session, job.archive)
    row.project = project
    row.submitted_by = by.name
    session.add(row)
    session.flush()
    return row


def refuse_if_full(session: Session, limit: int) -> None:
    """Check that one more job may wait.

    Raises:
        QueueFull: the limit is reached.
    """
    # Two concurrent submissions may both see the last free place: the limit protects the service, and need not be exact.
    waiting = select(func.count()).select_from(JobRow).where(JobRow.status == Status.QUEUED)
    if session.execute(waiting).scalar_one() >= limit:
        raise QueueFull(limit)


def _refuse_over_quota(session: Session, by: Submitter) -> None:
    if by.max_open_jobs is None:
        return
    # Or concurrent submissions would all see the last free places (PostgreSQL), and each may bring a batch of jobs.
    session.execute(select(UserRow.number).where(UserRow.name == by.user).with_for_update(key_share=True))
    whose = (JobRow.submitted_by == by.user) | JobRow.submitted_by.startswith(f"{by.user}/", autoescape=True)
    mine = whose & JobRow.status.in_(_OPEN)
    if session.execute(select(func.count()).select_from(JobRow).where(mine)).scalar_one() >= by.max_open_jobs:
        raise QuotaExceeded(by.user, by.max_open_jobs)


def _same_question(session: Session, question_sha: str, project: ProjectRow, now: datetime) -> JobRow | None:
    """The job with this question that was queued last and is open or has an answer which is not outdated; else None."""
    # A cancelled job may not reach an answer; one stopped after its verdict has it.
    will_answer = JobRow.status.in_(_OPEN) & JobRow.cancel_requested.is_(False)
    query = select(JobRow).where(
        JobRow.question_sha == question_sha,
        JobRow.project_number == project.number,
        will_answer | JobRow.status.in_(_ANSWERS),
    )
    latest = query.order_by(JobRow.queued_at.desc(), JobRow.number.desc()).limit(1)
    row = session.scalars(latest).one_or_none()
    return None if row is not None and _is_outdated(session, row, now) else row


def _is_outdated(session: Session, row: JobRow, now: datetime) -> bool:
    """Whether the workers that could take the job now have another torch than the one that answered it.

    Workers do not report the torch of the interpreters in `MINIMIZER_TOOLCHAINS`. For those, a worker started after the answer counts
    as having another one.
    """
    if row.finished_at is None:
        return False
    able = [
        worker
        for worker in session.scalars(select(WorkerRecord).where(WorkerRecord.last_seen > now - SILENCE))
        if can_take(worker.devices, worker.interpreters, (row.device, row.toolchain))
    ]
    if row.toolchain is not None:
        return any(worker.started_at > row.finished_at for worker in able)
    answered = ((artifacts.report_of(session, row) or {}).get("environment") or {}).get("torch")
    known = {_release(worker.torch) for worker in able}
    return answered is not None and bool(known) and _release(answered) not in known


def _release(torch: str) -> str:
    """A version without its build tag: package metadata and ``torch.__version__`` may differ in ``+cu130``."""
    return torch.partition("+")[0]


def _new_job(job: NewJob, now: datetime) -> JobRow:
    device, toolchain = job.options.needs
    return JobRow(
        id=_new_id(),
        filename=_stored_name(job.filename),
        options=job.options.to_store(),
        status=Status.QUEUED,
        progress={},
        cancel_requested=False,
        version=1,
        last_event=0,
        fence=0,
        attempt=0,
        pinned=False,
        priority=job.priority,
        device=device,
        toolchain=toolchain,
        created_at=now,
        queued_at=now,
        rung_at=now,
        updated_at=now,
        summary="",
    )


def _forget_run(session: Session, row: JobRow) -> None:
    """Reset a job's run state. Fence, event numbers and version keep rising, since readers and workers may hold old ones."""
    session.execute(delete(EventRecord).where(EventRecord.job_number == row.number))
    row.reason = row.step = None
    row.started_at = row.finished_at = row.worker = row.shuns = None
    row.progress = {}
    row.summary = ""
    row.attempt = 0
    row.cancel_requested = False
    row.skip_requested = None


def _forget_results(session: Session, row: JobRow) -> list[str]:
    """Delete a job's results; returns the hashes of blobs that may be unused now."""
    made = ArtifactRow.job_number == row.number
    shas = list(session.scalars(select(ArtifactRow.sha256).where(made)))
    session.execute(delete(ArtifactRow).where(made))
    row.kind = row.signature = None
    row.failure = row.culprit = row.reduction = None
    return shas


def _new_id() -> str:
    while (job_id := secrets.token_urlsafe(9)).startswith("-"):  # a command line would parse it as an option
        pass
    return job_id


def _key_sha(key: str, index: int, project: ProjectRow, by: Submitter) -> str:
    """Digest of an idempotency key, separate for each project and submitter.

    Keys may be long and hold any text, and nobody must find another's job by its key.
    """
    parts = json.dumps([project.number, by.name, index, key])
    return hashlib.sha256(parts.encode()).hexdigest()


def _question_of(session: Session, row: JobRow) -> str:
    """The question that a stored job asks by now: its budget may have changed since it was submitted."""
    script = blobs.get(session, row.script_sha)
    # Not through `Options`: parts that only a newer version understands belong to the question, too.
    options = {**Options().model_dump(mode="json"), **row.options}
    return _question_sha(script, row.filename, options, row.archive_sha)


def _question_sha(script: bytes, filename: str, options: dict[str, Any], archive_sha: str | None) -> str:
    asked = {"filename": _stored_name(filename), "options": options, "archive": archive_sha}
    return hashlib.sha256(script + b"\0" + json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _stored_name(filename: str) -> str:
    return bounds.text(filename, 255)
