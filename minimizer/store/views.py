"""What the store hands out: frozen values without a session behind them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from minimizer.options import Options
from minimizer.report.model import Culprit, Failure, Reduction
from minimizer.vocabulary import Kind, Reason, Role, Scope, Status, Step


@dataclass(frozen=True)
class NewJob:
    """A job that somebody hands in."""

    script: bytes
    filename: str
    """Of the script; with an archive, its path in there."""
    options: Options
    archive: bytes | None = None
    """A zip file with the script and what it needs beside it."""
    priority: int = 0
    """A job of a higher one goes before all others of its project."""


@dataclass(frozen=True)
class Submitter:
    """Who hands jobs in, and how many of his or hers may be open at once (``None``: any number)."""

    name: str = ""
    max_open_jobs: int | None = None

    @property
    def user(self) -> str:
        """Without the token: whoever makes another one may have no more jobs for it."""
        return self.name.partition("/")[0]


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
    project: str
    submitted_by: str
    """Whoever has signed in, or empty where nobody has to."""
    pinned: bool
    """Kept whatever the retention of its project says."""
    priority: int
    has_archive: bool
    attempt: int
    """How often a worker has started on it since it was submitted or retried."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    worker: str | None
    failure: Failure | None
    culprit: Culprit | None
    """The first."""
    reduction: Reduction | None
    summary: str
    version: int
    """Rises with every change that a reader can see."""
    cancel_requested: bool
    skip_requested: str | None
    """The step that its owner does not want to wait for."""

    @property
    def can_stop(self) -> bool:
        """Whether its verdict is reached, and work on it only adds to the report: stopped now, it keeps all it has."""
        return self.status is Status.RUNNING and not self.cancel_requested and self.progress.get("decided") is True

    @property
    def skippable(self) -> Step | None:
        """The step at work, where its owner need not wait for it: the repro is verified, and the step only adds to the report."""
        step = self.progress.get("skippable") if self.can_stop else None
        return Step(step) if step in list(Step) else None


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
class Wish:
    """What the owner of a running job wants of its worker."""

    cancel: bool = False
    skip: str | None = None
    """The step not to wait for."""


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
class GpuInfo:
    """A GPU of a worker; its memory in MiB, 0 where it is not known."""

    uuid: str
    name: str
    memory_mib: int = 0


@dataclass(frozen=True)
class Hardware:
    """The GPUs of a worker, and the versions of what drives them; ``trouble``: why it takes no job for a GPU, where it should."""

    gpus: tuple[GpuInfo, ...] = ()
    driver: str = ""
    cuda: str = ""
    triton: str = ""
    trouble: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hardware:
        """As `dataclasses.asdict` has written it; an older row has nothing."""
        return cls(**{**data, "gpus": tuple(GpuInfo(**gpu) for gpu in data.get("gpus", ()))})


NO_GPU = Hardware()


@dataclass(frozen=True)
class WorkerRow:
    """A worker process, and the job it is at."""

    name: str
    device: str
    devices: tuple[str, ...]
    """What it has beside a CPU."""
    torch: str
    toolchains: tuple[str, ...]
    hardware: Hardware
    trouble: str
    """Why it takes no jobs at present; empty if it does."""
    job_id: str | None
    project: str | None
    """Of the job it is at, as the next two."""
    filename: str | None
    step: str | None
    last_seen: datetime
    started_at: datetime


@dataclass(frozen=True)
class Waiting:
    """How many jobs wait for the same device and interpreter; ``None`` where any worker will do."""

    device: str | None
    toolchain: str | None
    jobs: int
    oldest: datetime
    """Since when the first of them waits."""


@dataclass(frozen=True)
class FailureGroup:
    """The jobs of a project that failed in the same way."""

    signature: str
    kind: Kind
    project: str
    jobs: int
    first_seen: datetime
    last_seen: datetime
    latest: Job | None
    best: Job | None
    """The one with the smallest verified repro."""
    operators: tuple[str, ...]
    message: str
    note: str
    issue_url: str
    """Of the issue upstream; empty where nobody has given one."""
    fixed_in: str | None
    """The torch in which the repro does not fail any more."""


@dataclass(frozen=True)
class FailureMember:
    """A job of a group, and why it is in it."""

    job: Job
    because: str


@dataclass(frozen=True)
class HistoryLine:
    """Something that was done to a group."""

    time: datetime
    actor: str
    what: str


@dataclass(frozen=True)
class Project:
    """Owns jobs."""

    name: str
    created_at: datetime
    keep_days: int | None
    """Days after which a job that has ended is deleted; ``None``: never."""
    keep_bytes: int | None
    """Bytes above which the oldest jobs are deleted; ``None``: no limit."""
    members: tuple[str, ...]


@dataclass(frozen=True)
class User:
    """Somebody who may sign in."""

    name: str
    role: Role
    active: bool
    has_password: bool
    projects: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True)
class Token:
    """A personal API token; its secret is known to its user alone."""

    id: str
    user: str
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True)
class Identity:
    """Who asks, and what he or she may see and do."""

    name: str
    role: Role
    scope: Scope
    projects: frozenset[str] | None
    """The projects whose jobs are open to this identity; ``None``: all."""
    token: str | None = None
    """The token that was shown, if it was one."""

    @property
    def may_write(self) -> bool:
        return self.scope is Scope.WRITE and self.role is not Role.VIEWER

    def sees(self, project: str | None) -> bool:
        """Whether jobs of this project are open to the identity."""
        return project is not None and (self.projects is None or project in self.projects)

    @property
    def label(self) -> str:
        """For the audit log, and for a job to say who has submitted it."""
        return f"{self.name}/{self.token}" if self.token else self.name


@dataclass(frozen=True)
class AuditEntry:
    """A change that somebody has made."""

    time: datetime
    actor: str
    action: str
    subject: str
    address: str


@dataclass(frozen=True)
class Webhook:
    """An address that is told when a job of its project ends."""

    id: str
    project: str
    url: str
    created_at: datetime


@dataclass(frozen=True)
class Message:
    """What is to be sent to a webhook, once more or for the first time."""

    number: int
    webhook_id: str
    url: str
    secret: str
    body: str


@dataclass(frozen=True)
class Delivery:
    """What became of a message to a webhook."""

    number: int
    job_id: str
    created_at: datetime
    attempts: int
    next_at: datetime | None
    """When it is tried again; ``None`` once it has arrived or was given up."""
    delivered_at: datetime | None
    answer: str
    """Of the last attempt: the HTTP status, or why there was none."""
