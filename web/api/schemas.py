"""The shapes of the REST interface: what OpenAPI documents is what is sent."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from flask import request, url_for
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator, model_validator
from pydantic_core import PydanticCustomError

from minimizer.errors import InvalidOption
from minimizer.options import MAX_BUDGET, Options, parse_options
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, Reduction, Report
from minimizer.store import ArtifactInfo, Job, WorkerRow
from minimizer.vocabulary import Kind, Reason, Status, Step
from web.formats import PYTHON, Cursor, ProjectName
from web.submission import Handling

_MAX_EVENT = (1 << 31) - 1
"""The databases' maximum."""
UPLOAD = "UploadBody"
"""Name of the schema of multipart submissions, which no model has."""
OPTION_FAULT = "invalid_option"


def _is_unknown(value: object) -> bool:
    return value is None


class JobPath(BaseModel):
    job_id: str = Field(description="Id of the job.")


class ArtifactPath(JobPath):
    name: str = Field(description="Name of the artifact.")


class FilePath(JobPath):
    name: Literal["repro.py", "report.json", "report.md", "issue.md", "run.log", "script.py"] = Field(
        description="Which file."
    )


class WaitQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    wait: float = Field(
        0,
        ge=0,
        description="Long poll: hold the answer for up to this many seconds (60 at most) until the job is final or, "
        "with If-None-Match, until it has changed.",
    )


class EventsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: int = Field(
        0, ge=0, le=_MAX_EVENT, description="Begin after this event; the header Last-Event-ID says the same and wins."
    )


class ListQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: Status | None = Field(None, description="Only jobs of this status.")
    kind: Kind | None = Field(None, description="Only jobs with this kind of failure.")
    q: str | None = Field(
        None, max_length=200, description="Only jobs whose id, file name, verdict or failure signature contains this."
    )
    cursor: Cursor | None = Field(None, description="Where to go on; taken from next_cursor or the Link header.")
    limit: int = Field(50, ge=1, le=200, description="Jobs per page.")


class RetryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    budget: int | None = Field(
        None,
        ge=10,
        le=MAX_BUDGET,
        description="Seconds for the next run, which goes on from where the last one stopped.",
    )


class SkipQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    step: Step | None = Field(
        None,
        description="The step that is meant, so that a request that comes late skips no other: `skippable` of the job.",
    )


class SignaturePath(BaseModel):
    signature: str = Field(
        description="Signature of the group, as in the list and in the `links` of a job, or the fingerprint of one of its jobs. "
        "It is not the `signature` in the report of a job."
    )


class ProjectQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: str | None = Field(
        None,
        max_length=64,
        description="Whose failure it is: a signature is one within a project only. Default: the newest of this signature "
        "in the projects that are open to you.",
    )


_EXAMPLE = "import torch\n\n\n@torch.compile\ndef f(x):\n    return torch.relu(x)\n\n\nprint(f(torch.randn(4)))\n"


class EntryBody(BaseModel):
    """A script among many."""

    model_config = ConfigDict(extra="forbid")

    script: str = Field(
        description="Text of the Python script that fails under torch.compile.",
        examples=[_EXAMPLE],
        json_schema_extra={"minLength": 1, "pattern": r"\S", "format": PYTHON},
    )
    filename: str | None = Field(None, description="Name to show for it.", examples=["model.py"])
    options: Options = Field(default_factory=Options, description="Options of the job.", examples=[{"budget": 300}])
    priority: StrictInt = Field(0, ge=-10, le=10, description="A higher one goes before other jobs of the project.")

    @field_validator("options", mode="before")
    @classmethod
    def check_options(cls, raw: object) -> object:
        """In the words that options are refused with everywhere."""
        try:
            return parse_options(raw, strict=True) if isinstance(raw, dict) else raw
        except InvalidOption as error:
            raise PydanticCustomError(OPTION_FAULT, "{said}", {"said": str(error)}) from None


class ScriptBody(EntryBody, Handling):
    """A job as JSON."""


class BatchBody(BaseModel):
    """Many jobs as JSON."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[EntryBody] = Field(min_length=1, max_length=100)
    project: ProjectName | None = Field(None, description="The project they go to.", examples=["default"])
    force: StrictBool = Field(False, description="Make new jobs even of what was asked before.")


class RetestBody(BaseModel):
    """With what a repro is run again."""

    model_config = ConfigDict(extra="forbid")

    toolchain: str | None = Field(
        None,
        max_length=200,
        description="Name of the configured interpreter, with another torch; default: the worker's own.",
    )

    @model_validator(mode="before")
    @classmethod
    def nothing_asks_for_nothing(cls, body: object) -> object:
        """Take a request without a body for an empty object; one with a body that is no JSON stays refused."""
        return {} if body is None and not request.get_data() else body


class ProgressBody(BaseModel):
    """How far a job is. What it does not know yet is left out."""

    nodes: int | None = Field(
        None, exclude_if=_is_unknown, description="Nodes that are left of the graph, or of the script."
    )
    nodes_before: int | None = Field(None, exclude_if=_is_unknown)
    trials: int | None = Field(None, exclude_if=_is_unknown, description="Smaller programs that were tried.")
    message: str | None = Field(None, exclude_if=_is_unknown, description="What was done last.")
    elapsed: float | None = Field(
        None, exclude_if=_is_unknown, description="Seconds since it began; they go on to the end."
    )
    budget: int | None = Field(None, exclude_if=_is_unknown, description="Seconds that it may take.")
    decided: bool | None = Field(None, exclude_if=_is_unknown, description="Whether the verdict is reached.")
    skippable: Step | None = Field(None, exclude_if=_is_unknown, description="The step that can be skipped now.")


class JobBody(BaseModel):
    """A job."""

    id: str = Field(examples=["x3Vb1kQz_0aA"])
    status: Status
    final: bool = Field(description="Whether the status will not change any more.")
    reason: Reason | None = Field(
        description="Why the job did not end minimized, or what is in doubt about a repro (disputed)."
    )
    summary: str = Field(description="The verdict in plain English.")
    stage: str | None = Field(description="The step of the pipeline the job is at.")
    progress: ProgressBody
    failure: Failure | None = Field(
        description="As in the report. Its `signature` tells failures apart within a script; the group is in `links`."
    )
    culprit: Culprit | None = Field(description="The first culprit; all of them are in the report.")
    reduction: Reduction | None
    filename: str
    options: Options
    project: str = Field(description="The project that owns it.", examples=["default"])
    submitted_by: str = Field(description="Who has submitted it; empty where nobody has to sign in.")
    pinned: bool = Field(description="Whether it is kept whatever the retention of its project says.")
    priority: int
    attempt: int = Field(description="How many workers have begun it.")
    worker: str | None
    cancel_requested: bool
    can_stop: bool = Field(
        description="Whether the verdict is reached, and what runs only adds to the report: `links.cancel` ends the job now, with "
        "the status it has earned and all its files, `repro.py` as it was verified among them. Before that a cancelled job keeps "
        "its best so far, and is `cancelled`."
    )
    skippable: Step | None = Field(
        description="The step at work, if `links.skip` can end it now: the repro is verified, and the step only adds to the report."
    )
    skip_requested: Step | None = Field(description="The step that its worker was asked to skip.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    report: Report | None = Field(None, description="The report so far; in a list it is null.")
    links: dict[str, str] = Field(
        description="Where all the rest is, `issue.md` for one: the failure as an issue for PyTorch's tracker, once its repro is "
        "verified. `failure` is the group of jobs that failed in the same way, once the job is in one."
    )


class JobsBody(BaseModel):
    """A page of jobs, newest first."""

    jobs: list[JobBody]
    next_cursor: str | None


class ArtifactBody(BaseModel):
    name: str
    size: int = Field(description="Bytes.")
    sha256: str
    media_type: str
    created_at: datetime
    url: str


class ArtifactsBody(BaseModel):
    artifacts: list[ArtifactBody]


class GpuBody(BaseModel):
    uuid: str
    name: str
    memory_mib: int = Field(description="In MiB; 0 where it is not known.")


class WorkerBody(BaseModel):
    name: str
    device: str
    torch: str
    toolchains: list[str] = Field(description="Further Python interpreters it has.")
    gpus: list[GpuBody] = Field(description="Its GPUs.")
    driver: str = Field(description="Version of the GPU driver; empty without a GPU, as the next two.")
    cuda: str = Field(description="Version of CUDA that its torch is built for.")
    triton: str = Field(description="Version of Triton beside its torch.")
    gpu_trouble: str = Field(
        description="Why it takes no job for a GPU although it should have one; empty if all is well."
    )
    trouble: str = Field(
        description="What is wrong with its machine (disk, memory, sandbox, compiler, interpreter), for which it takes no jobs; empty if all is well."
    )
    job_id: str | None = Field(description="The job it works on, if that is open to you.")
    started_at: datetime
    last_seen: datetime


class QueueBody(BaseModel):
    """The jobs, of all projects, that wait for the same device and interpreter."""

    device: str | None = Field(description="The device they need; null where any will do.")
    toolchain: str | None = Field(description="The interpreter they need; null for the default one.")
    jobs: int = Field(description="How many.")
    oldest: datetime | None = Field(description="Since when the first of them waits.")
    workers: int = Field(description="How many workers that were seen in the last minute can take them.")


class WorkersBody(BaseModel):
    workers: list[WorkerBody]
    queues: list[QueueBody]


class HealthBody(BaseModel):
    status: str


def job_body(job: Job, report: Report | None = None, failure: str | None = None) -> JobBody:
    """A job as the API shows it; ``failure`` is the signature of its group."""
    return JobBody(
        id=job.id,
        status=job.status,
        final=job.status.is_final,
        reason=job.reason,
        summary=job.summary,
        stage=job.step,
        progress=ProgressBody.model_validate(job.progress),
        failure=job.failure,
        culprit=job.culprit,
        reduction=job.reduction,
        filename=job.filename,
        options=job.options,
        project=job.project,
        submitted_by=job.submitted_by,
        pinned=job.pinned,
        priority=job.priority,
        attempt=job.attempt,
        worker=job.worker,
        cancel_requested=job.cancel_requested,
        can_stop=job.can_stop,
        skippable=job.skippable,
        skip_requested=Step(job.skip_requested) if job.skip_requested in list(Step) else None,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        updated_at=job.updated_at,
        report=report,
        links=_links(job.id) | (_failure_link(failure, job.project) if failure else {}),
    )


def artifact_body(job_id: str, artifact: ArtifactInfo) -> ArtifactBody:
    """An artifact as the API shows it."""
    return ArtifactBody(
        name=artifact.name,
        size=artifact.size,
        sha256=artifact.sha256,
        media_type=artifact.media_type,
        created_at=artifact.created_at,
        url=url_for("files.get_artifact", job_id=job_id, name=artifact.name),
    )


def worker_body(worker: WorkerRow, sees_job: bool) -> WorkerBody:
    """A worker as the API shows it."""
    return WorkerBody(
        name=worker.name,
        device=worker.device,
        torch=worker.torch,
        toolchains=list(worker.toolchains),
        gpus=[GpuBody(**vars(gpu)) for gpu in worker.hardware.gpus],
        driver=worker.hardware.driver,
        cuda=worker.hardware.cuda,
        triton=worker.hardware.triton,
        gpu_trouble=worker.hardware.trouble,
        trouble=worker.trouble,
        job_id=worker.job_id if sees_job else None,
        started_at=worker.started_at,
        last_seen=worker.last_seen,
    )


def _links(job_id: str) -> dict[str, str]:
    raw = {name: url_for("files.get_file", job_id=job_id, name=name) for name in FILES}
    return {
        "self": url_for("api.get_job", job_id=job_id),
        "html": url_for("pages.job", job_id=job_id),
        "events": url_for("api.get_events", job_id=job_id),
        "artifacts": url_for("files.list_artifacts", job_id=job_id),
        "cancel": url_for("api.cancel_job", job_id=job_id),
        "skip": url_for("api.skip_step", job_id=job_id),
        "retry": url_for("api.retry_job", job_id=job_id),
        **raw,
    }


def _failure_link(signature: str, project: str) -> dict[str, str]:
    return {"failure": url_for("failures.get_failure", signature=signature, project=project)}


# The files every job offers under its own path.
FILES = ("repro.py", "report.json", "report.md", "issue.md", "run.log", "script.py")
