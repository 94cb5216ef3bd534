"""What the store hands out: frozen values without a session behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from minimizer.options import Options
from minimizer.types import Kind, Reason, Status


@dataclass(frozen=True)
class Job:
    """A job as it stood when it was read."""

    id: str
    status: Status
    reason: Reason | None
    step: str | None
    progress: dict[str, Any]
    filename: str
    options: Options
    script_sha: str
    attempt: int
    """How often a worker has started on it since it was submitted or retried."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    worker: str | None
    failure: dict[str, Any] | None
    culprit: dict[str, Any] | None
    reduction: dict[str, Any] | None
    summary: str
    version: int
    """Rises with every change that a reader can see."""
    cancel_requested: bool


@dataclass(frozen=True)
class Claim:
    """The right of one worker to write about one job, until its lease is lost."""

    job: Job
    worker: str
    fence: int
    """Rises with every claim of the job; a write under an older one is refused."""

    @property
    def job_id(self) -> str:
        return self.job.id


@dataclass(frozen=True)
class EventRow:
    """Something that happened in a job. ``seq`` rises within the job."""

    seq: int
    type: str
    time: datetime
    data: dict[str, Any]


@dataclass(frozen=True)
class ArtifactInfo:
    """A file that a job has made."""

    name: str
    size: int
    sha256: str
    media_type: str
    created_at: datetime


@dataclass(frozen=True)
class WorkerRow:
    """A worker process, and the job it is at."""

    name: str
    device: str
    torch: str
    job_id: str | None
    last_seen: datetime
    started_at: datetime


@dataclass(frozen=True)
class FailureGroup:
    """The jobs that failed in the same way."""

    signature: str
    kind: Kind
    jobs: int
    first_seen: datetime
    last_seen: datetime
    latest: Job
