"""Values that the store returns: frozen dataclasses without a database session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from minimizer.options import Options
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction
from minimizer.vocabulary import Kind, Reason, Role, Scope, Status, Step


@dataclass(frozen=True)
class NewJob:
    """A job to be submitted."""

    script: bytes
    filename: str
    """Name of the script; with an archive, its path in the archive."""
    options: Options
    archive: bytes | None = None
    """A zip file with the script and the files it needs; None for a single script."""
    priority: int = 0
    """Jobs with a higher priority run before the project's others."""


@dataclass(frozen=True)
class Submitter:
    """The submitter of jobs, and the limit on this submitter's open jobs (``None``: no limit)."""

    name: str = ""
    max_open_jobs: int | None = None

    @property
    def user(self) -> str:
        """The user's name without the token's id: all tokens of a user share one quota."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Job:
    """A job's state at the time it was read."""

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
    """Label of the submitter's identity; empty if access control is off."""
    pinned: bool
    """Exempt from the project's retention."""
    priority: int
    has_archive: bool
    attempt: int
    """Number of times a worker has claimed it since it was submitted or retried."""
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    worker: str | None
    failure: Failure | None
    culprit: Culprit | None
    """The first culprit."""
    reduction: Reduction | None
    summary: str
    version: int
    """Rises with every change that a reader can see."""
    cancel_requested: bool
    skip_requested: str | None
    """The step that its owner does not want to wait for."""

    @property
    def can_stop(self) -> bool:
        """Whether the verdict is reached and further work only adds to the report, so that a stop loses nothing."""
        return self.status is Status.RUNNING and not self.cancel_requested and self.progress.get("decided") is True

    @property
    def skippable(self) -> Step | None:
        """The current step, if its owner need not wait for it: the repro is verified, and the step only adds to the
        report.
        """
        step = self.progress.get("skippable") if self.can_stop else None
        return Step(step) if step in list(Step) else None


@dataclass(frozen=True)
class Claim:
    """One worker's claim on a job: the right to write its results until the lease is lost."""

    job: Job
    worker: str
    fence: int
    """The fence token: rises with every claim of the job; a write with an older one is refused."""

    @property
    def job_id(self) -> str:
        return self.job.id


@dataclass(frozen=True)
class Wish:
    """The requests of a running job's owner to its worker."""

    cancel: bool = False
    skip: str | None = None
    """The step not to wait for."""


@dataclass(frozen=True)
class EventRow:
    """An event of a job. ``seq`` rises within the job."""

    seq: int
    type: str
    time: datetime
    data: dict[str, Any]


@dataclass(frozen=True)
class ArtifactInfo:
    """An artifact of a job, without its content."""

    name: str
    size: int
    sha256: str
    media_type: str
    created_at: datetime


@dataclass(frozen=True)
class GpuInfo:
    """A GPU of a worker; memory in MiB, 0 if it is not known."""

    uuid: str
    name: str
    memory_mib: int = 0


@dataclass(frozen=True)
class Hardware:
    """The GPUs of a worker and the versions of driver and libraries; ``trouble``: why it takes no GPU jobs although it should."""

    gpus: tuple[GpuInfo, ...] = ()
    driver: str = ""
    cuda: str = ""
    triton: str = ""
    trouble: str = ""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hardware:
        """Read the dict that `dataclasses.asdict` wrote; older rows have an empty one."""
        return cls(**{**data, "gpus": tuple(GpuInfo(**gpu) for gpu in data.get("gpus", ()))})


NO_GPU = Hardware()


@dataclass(frozen=True)
class WorkerRow:
    """A worker process, and the job it works on."""

    name: str
    device: str
    devices: tuple[str, ...]
    """Devices other than the CPU."""
    torch: str
    toolchains: tuple[str, ...]
    hardware: Hardware
    trouble: str
    """Why it takes no jobs at present; empty if it does."""
    job_id: str | None
    project: str | None
    """Project of its current job; the next two fields are also about that job."""
    filename: str | None
    step: str | None
    last_seen: datetime
    started_at: datetime


@dataclass(frozen=True)
class Waiting:
    """Number of jobs waiting for the same device and interpreter; ``None``: any."""

    device: str | None
    toolchain: str | None
    jobs: int
    oldest: datetime
    """Time since which the first of them has been waiting."""


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
    """The job with the smallest verified repro."""
    operators: tuple[str, ...]
    message: str
    note: str
    issue_url: str
    """URL of the upstream issue; empty if none was set."""
    fixed_in: str | None
    """The torch version in which the repro no longer fails."""


@dataclass(frozen=True)
class FailureMember:
    """A job of a group, and the reason for its membership."""

    job: Job
    because: str


@dataclass(frozen=True)
class HistoryLine:
    """A change of a group."""

    time: datetime
    actor: str
    what: str


@dataclass(frozen=True)
class Project:
    """A project: owns jobs, and limits how long they are kept."""

    name: str
    created_at: datetime
    keep_days: int | None
    """Days after which a job that has ended is deleted; ``None``: never."""
    keep_bytes: int | None
    """Bytes above which the oldest jobs are deleted; ``None``: no limit."""
    members: tuple[str, ...]


@dataclass(frozen=True)
class User:
    """A user, who may sign in."""

    name: str
    role: Role
    active: bool
    has_password: bool
    projects: tuple[str, ...]
    created_at: datetime


@dataclass(frozen=True)
class Token:
    """A personal API token, without its secret, which the store keeps only as a digest."""

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
    """The identity behind a request, with its role, scope and projects."""

    name: str
    role: Role
    scope: Scope
    projects: frozenset[str] | None
    """The projects whose jobs this identity may see; ``None``: all."""
    token: str | None = None
    """Id of the token that was presented, now or at sign-in; None if none was."""

    @property
    def may_write(self) -> bool:
        return self.scope is Scope.WRITE and self.role is not Role.VIEWER

    def sees(self, project: str | None) -> bool:
        """Whether this identity may see jobs of this project."""
        return project is not None and (self.projects is None or project in self.projects)

    @property
    def label(self) -> str:
        """Name for the audit log, and for a job's ``submitted_by``."""
        return f"{self.name}/{self.token}" if self.token else self.name


@dataclass(frozen=True)
class AuditEntry:
    """An entry of the audit log."""

    time: datetime
    actor: str
    action: str
    subject: str
    address: str


@dataclass(frozen=True)
class Webhook:
    """A webhook: an address that gets a message when a job of its project ends."""

    id: str
    project: str
    url: str
    created_at: datetime


@dataclass(frozen=True)
class Message:
    """A message that is due to be sent to a webhook."""

    number: int
    webhook_id: str
    url: str
    secret: str
    body: str


@dataclass(frozen=True)
class Delivery:
    """The delivery state of a message to a webhook."""

    number: int
    job_id: str
    created_at: datetime
    attempts: int
    next_at: datetime | None
    """Time of the next attempt; ``None`` once it was delivered or given up."""
    delivered_at: datetime | None
    answer: str
    """Result of the last attempt: the HTTP status, or why there was none."""
