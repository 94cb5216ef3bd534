"""How jobs come in: one or many in a transaction, once per idempotency key, once per question, within the limits."""

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
from minimizer.store.tables.models import ArtifactRow, EventRecord, IdempotencyRow, JobRow, ProjectRow, WorkerRecord
from minimizer.store.views import Job, NewJob, Submitter
from minimizer.store.work.workers import SILENCE, can_take
from minimizer.vocabulary import Status

# What a job that has ended otherwise says is worth no second look: somebody stopped it, or the machine was in the way.
_ANSWERS = (Status.QUEUED, Status.RUNNING, Status.MINIMIZED, Status.HEALTHY, Status.PARTIAL)
_OPEN = (Status.QUEUED, Status.RUNNING)


class Submissions:
    """The part of the store that takes jobs."""

    _database: Database
    _max_queued_jobs: int

    def submit(
        self,
        script: bytes,
        filename: str,
        options: Options,
        idempotency_key: str | None = None,
        *,
        project: str = DEFAULT_PROJECT,
    ) -> tuple[Job, bool]:
        """Queue one job whatever was asked before; `submit_many` has the whole story."""
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

        Returns each with whether it is new. It is not if this key has made it before, or, without ``force``, if the
        project has a job that answers the same question: the same script, name and options, waiting or ended well, and
        no worker that would take it has another torch by now.

        Raises:
            IdempotencyConflict: the key was used for another script, name or options.
            QueueFull: too many jobs wait.
            QuotaExceeded: too many jobs of this submitter are open.
            UnknownProject: there is no such project.
        """
        asked = [prepare(job) for job in jobs]
        try:
            return self._submit(asked, idempotency_key, project, by, force)
        except IntegrityError:
            if idempotency_key is None:
                raise
            # The same key came twice at the same moment and the other was first: now its job is there to be found.
            return self._submit(asked, idempotency_key, project, by, force)

    def retry(self, job_id: str, budget: int | None = None, *, max_open_jobs: int | None = None) -> Job:
        """Queue a job that has ended once more; one that waits stays as it is.

        Args:
            budget: seconds for the next run, which then goes on from where the last one stopped; what was found stays
                until it finds more. Without it, the job forgets all it has found and begins at the beginning.
            max_open_jobs: how many jobs of its submitter may be open; it stays that one's, whoever runs it again.

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
                row.question_sha = None  # what it answers from now on is not what was asked at first
                row.queued_at = row.rung_at = now
                row.status = Status.QUEUED
                touch(row, now)
                shas += artifacts.restate(session, row, now)
        blobs.collect(self._database, shas)
        return view(row)

    def _submit(
        self, jobs: Sequence[Prepared], key: str | None, project: str, by: Submitter, force: bool
    ) -> list[tuple[Job, bool]]:
        with self._database.write() as session:
            home = find_project(session, project)
            if not force:  # or the same question that comes twice at one moment is asked twice (PostgreSQL)
                session.execute(
                    select(ProjectRow.number).where(ProjectRow.number == home.number).with_for_update(key_share=True)
                )
            now = self._database.now(session)
            return [
                self._submit_one(
                    session, job, None if key is None else _key_sha(key, index, home, by), home, by, force, now
                )
                for index, job in enumerate(jobs)
            ]

    def _submit_one(
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
    """A job to be, with all of the work done that needs no transaction."""

    job: NewJob
    question_sha: str
    script: blobs.Packed
    archive: blobs.Packed | None


def prepare(job: NewJob) -> Prepared:
    """Make a job ready for `queue`."""
    archive = None if job.archive is None else blobs.pack(job.archive)
    return Prepared(job, _question_sha(job), blobs.pack(job.script), archive)


def queue(
    session: Session, job: Prepared, project: ProjectRow, by: Submitter, max_queued_jobs: int, now: datetime
) -> JobRow:
    """Add a job that waits.

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
    """Make sure that one more job may wait.

    Raises:
        QueueFull: as many wait as may.
    """
    # Two submissions at the same moment may both see the last free place: the limit protects us, it is no promise.
    waiting = select(func.count()).select_from(JobRow).where(JobRow.status == Status.QUEUED)
    if session.execute(waiting).scalar_one() >= limit:
        raise QueueFull(limit)


def _refuse_over_quota(session: Session, by: Submitter) -> None:
    if by.max_open_jobs is None:
        return
    whose = (JobRow.submitted_by == by.user) | JobRow.submitted_by.startswith(f"{by.user}/", autoescape=True)
    mine = whose & JobRow.status.in_(_OPEN)
    if session.execute(select(func.count()).select_from(JobRow).where(mine)).scalar_one() >= by.max_open_jobs:
        raise QuotaExceeded(by.user, by.max_open_jobs)


def _same_question(session: Session, question_sha: str, project: ProjectRow, now: datetime) -> JobRow | None:
    """The newest job that is under way to the answer, or has it."""
    query = select(JobRow).where(
        JobRow.question_sha == question_sha,
        JobRow.project_number == project.number,
        JobRow.status.in_(_ANSWERS),
        JobRow.cancel_requested.is_(False),
    )
    row = session.scalars(query.order_by(JobRow.number.desc()).limit(1)).one_or_none()
    return None if row is not None and _is_outdated(session, row, now) else row


def _is_outdated(session: Session, row: JobRow, now: datetime) -> bool:
    """Whether the workers that would take the job now have another torch than the one that answered it.

    Which torch an interpreter of `MINIMIZER_TOOLCHAINS` has they do not say. It may be another one since they started.
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
    """A version without its build: what is installed and what torch says of itself need not agree on ``+cu130``."""
    return torch.partition("+")[0]


def _new_job(job: NewJob, now: datetime) -> JobRow:
    device, toolchain = job.options.needs
    return JobRow(
        id=_new_id(),
        filename=bounds.text(job.filename, 255),
        options=job.options.model_dump(mode="json"),
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
    """Empty a job of its last run. Fence, event numbers and version go on rising: somebody may still hold old ones."""
    session.execute(delete(EventRecord).where(EventRecord.job_number == row.number))
    row.reason = row.step = None
    row.started_at = row.finished_at = row.worker = row.shuns = None
    row.progress = {}
    row.summary = ""
    row.attempt = 0
    row.cancel_requested = False
    row.skip_requested = None


def _forget_results(session: Session, row: JobRow) -> list[str]:
    """Empty a job of what it has found; returns the blobs that may be of no use any more."""
    made = ArtifactRow.job_number == row.number
    shas = list(session.scalars(select(ArtifactRow.sha256).where(made)))
    session.execute(delete(ArtifactRow).where(made))
    row.kind = row.signature = None
    row.failure = row.culprit = row.reduction = None
    return shas


def _new_id() -> str:
    while (job_id := secrets.token_urlsafe(9)).startswith("-"):  # it would be taken for an option
        pass
    return job_id


def _key_sha(key: str, index: int, project: ProjectRow, by: Submitter) -> str:
    """Keys are long and hold anything, hence a digest. Those of others are other keys, or one could ask for their jobs."""
    parts = json.dumps([project.number, by.name, index, key])
    return hashlib.sha256(parts.encode()).hexdigest()


def _question_sha(job: NewJob) -> str:
    asked: dict[str, Any] = {
        "filename": job.filename,
        "options": job.options.model_dump(mode="json"),
        "archive": None if job.archive is None else hashlib.sha256(job.archive).hexdigest(),
    }
    return hashlib.sha256(job.script + b"\0" + json.dumps(asked, sort_keys=True).encode()).hexdigest()
