"""Groups of jobs that failed in the same way: REST and pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask import Blueprint, redirect, render_template, request, url_for
from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from werkzeug.wrappers import Response as BaseResponse

from minimizer.errors import InvalidScript
from minimizer.options import Options
from minimizer.service import archive
from minimizer.store import MAX_GROUPS, FailureGroup, Job
from minimizer.store.groups import Projects
from minimizer.vocabulary import Kind
from web import filters
from web.access.table import identity, submitter
from web.api.answers import BROKEN, COMMON, SECURITY, operation_id, problem_response, reference
from web.api.schemas import JobBody, ProjectQuery, RetestBody, SignaturePath, job_body
from web.pages import job_view
from web.problems import Problem, explain
from web.service import service
from web.submission import Submission, toolchains

ARCHIVE, REPRO = "repro.zip", "repro.py"

failures = APIBlueprint(
    "failures",
    __name__,
    url_prefix="/api/v1/failures",
    abp_tags=[Tag(name="failures", description="Which jobs failed in the same way, and what is known of it.")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)
failure_pages = Blueprint("failure_pages", __name__)

UNKNOWN: dict[Any, Any] = {
    404: problem_response("There is no such failure, or it is in a project that is not open to you.")
}


class FailureBody(BaseModel):
    """Jobs that failed in the same way."""

    signature: str
    kind: Kind
    project: str
    jobs: int = Field(description="How many.")
    first_seen: datetime
    last_seen: datetime
    latest: str | None = Field(description="Id of the newest of them.")
    best: str | None = Field(description="Id of the one with the smallest verified repro.")
    operators: list[str]
    message: str
    note: str
    issue_url: str = Field(description="The issue upstream, if somebody has named it.")
    fixed_in: str | None = Field(description="The torch in which the repro does not fail any more.")
    url: str


class FailuresQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Kind | None = Field(None, description="Only failures of this kind.")
    q: str | None = Field(
        None, max_length=200, description="Only those whose operators, message, note, issue or signature contain this."
    )


class FailuresBody(BaseModel):
    failures: list[FailureBody]


class MemberBody(BaseModel):
    job: JobBody
    because: str = Field(description="Why it is in this group.")


class HistoryBody(BaseModel):
    time: datetime
    actor: str
    what: str


class WholeFailureBody(FailureBody):
    """A group with its jobs, the newest first, and its history, the last first."""

    members: list[MemberBody]
    history: list[HistoryBody]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class DescribeBody(_Strict):
    """What is left out stays as it is."""

    note: str | None = Field(None, max_length=4000)
    issue_url: str | None = Field(None, max_length=2000, pattern=r"^(https?://\S+)?$")
    fixed_in: str | None = Field(None, max_length=64, description="Empty: it is not fixed after all.")


class MergeBody(_Strict):
    other: str = Field(max_length=80, description="Signature of the group whose jobs come into this one.")


class SplitBody(_Strict):
    jobs: list[str] = Field(min_length=1, max_length=200, description="Ids of the jobs that go into a new group.")


@failures.get("", summary="Failures, the last seen first", responses={200: FailuresBody})
def list_failures(query: FailuresQuery) -> dict[str, Any]:
    groups = service().store.groups.newest(projects=identity().projects, kind=query.kind, q=query.q)
    return FailuresBody(failures=[_body(group) for group in groups]).model_dump(mode="json")


@failures.get("/<signature>", summary="A failure and its jobs", responses={200: WholeFailureBody, **UNKNOWN})
def get_failure(path: SignaturePath, query: ProjectQuery) -> dict[str, Any]:
    return _whole(service().store.groups.get(path.signature, _among(query.project)))


@failures.patch(
    "/<signature>", summary="Say what is known of a failure", responses={200: WholeFailureBody, **UNKNOWN, **BROKEN}
)
def describe_failure(path: SignaturePath, query: ProjectQuery, body: DescribeBody) -> dict[str, Any]:
    among = _among(query.project)
    return _whole(
        service().store.groups.describe(path.signature, identity().label, projects=among, **body.model_dump())
    )


@failures.post(
    "/<signature>/merge", summary="Two failures are one", responses={200: WholeFailureBody, **UNKNOWN, **BROKEN}
)
def merge_failures(path: SignaturePath, query: ProjectQuery, body: MergeBody) -> dict[str, Any]:
    among = _among(query.project)
    return _whole(service().store.groups.merge(path.signature, body.other, identity().label, among))


@failures.post(
    "/<signature>/split",
    summary="Some jobs are another failure",
    responses={
        200: WholeFailureBody,
        409: problem_response("One of the jobs is not in the group, or none would be left in it."),
        **UNKNOWN,
        **BROKEN,
    },
)
def split_failure(path: SignaturePath, query: ProjectQuery, body: SplitBody) -> dict[str, Any]:
    among = _among(query.project)
    return _whole(service().store.groups.split(path.signature, body.jobs, identity().label, among))


@failures.post(
    "/<signature>/retest",
    summary="Run the best repro again",
    request_body={"required": False, "content": {"application/json": {"schema": reference(RetestBody)}}},
    description="As a new job; the body may be left out. When it ends, the group knows whether that torch still fails (`fixed_in`, `history`).",
    responses={
        202: JobBody,
        409: problem_response("No job of this failure has a verified repro, or it is too large for another job."),
        **UNKNOWN,
        **BROKEN,
    },
)
def retest_failure(path: SignaturePath, query: ProjectQuery, body: RetestBody) -> tuple[dict[str, Any], int]:
    return job_body(_retest(path.signature, body.toolchain, _among(query.project))).model_dump(mode="json"), 202


@failure_pages.get("/failures")
def index() -> str:
    kind = filters.one_of(Kind, "kind")
    q = filters.text()
    return render_template(
        "failures.html",
        groups=service().store.groups.newest(projects=identity().projects, kind=kind, q=q or None),
        most=MAX_GROUPS,
        filters={"kind": kind or "", "q": q},
        kinds=Kind,
    )


@failure_pages.get("/failures/<signature>")
def page(signature: str) -> str:
    store = service().store
    group = store.groups.get(signature, _among(request.args.get("project")))
    projects = [group.project]
    return render_template(
        "failure.html",
        group=group,
        members=store.groups.members(signature, projects),
        history=store.groups.history(signature, projects),
        others=[other for other in store.groups.newest(projects=projects) if other.signature != group.signature],
        toolchains=toolchains(service().settings),
        repro=job_view.repro(store, group.best.id) if group.best else None,
    )


@failure_pages.post("/failures/<signature>")
def change(signature: str) -> BaseResponse:
    """One form for each ``action``: describe, merge, split, retest."""
    store, who = service().store, identity()
    project = request.args.get("project")
    projects = _among(project)
    try:
        match request.form.get("action"):
            case "describe":
                changes = DescribeBody.model_validate(_changed(store.groups.get(signature, projects)))
                store.groups.describe(signature, who.label, projects=projects, **changes.model_dump())
            case "merge":
                body = MergeBody.model_validate({"other": request.form.get("other")})
                store.groups.merge(signature, body.other, who.label, projects)
            case "split":
                jobs = SplitBody.model_validate({"jobs": request.form.getlist("jobs")}).jobs
                signature = store.groups.split(signature, jobs, who.label, projects).signature
            case "retest":
                job = _retest(signature, request.form.get("toolchain") or None, projects)
                return redirect(url_for("pages.job", job_id=job.id), 303)
            case _:
                raise Problem(422, "invalid-body", "There is no such action: describe, merge, split or retest.")
    except ValidationError as error:
        raise Problem(422, "invalid-body", explain(error)) from None
    return redirect(url_for("failure_pages.page", signature=signature, project=project), 303)


def _among(project: str | None) -> Projects:
    """Where to look for a failure: in the named project, else in all accessible ones."""
    who = identity()
    if project is None:
        return who.projects
    return [project] if who.sees(project) else []


def _changed(group: FailureGroup) -> dict[str, str]:
    """The changed fields of the posted form; a note merged from two groups may exceed the limit for a new one."""
    # Browsers send line breaks of a text area as CRLF.
    posted = {name: request.form.get(name, "").replace("\r\n", "\n") for name in DescribeBody.model_fields}
    return {name: value for name, value in posted.items() if value != (getattr(group, name) or "")}


def _retest(signature: str, toolchain: str | None, projects: Projects) -> Job:
    here, who = service(), identity()
    group = here.store.groups.get(signature, projects)
    if group.best is None:
        raise Problem(409, "no-repro", "No job of this failure has a verified repro that could be run again.")
    if toolchain is not None and toolchain not in toolchains(here.settings):
        raise Problem(422, "invalid-option", f"There is no toolchain {toolchain!r}; MINIMIZER_TOOLCHAINS names them.")
    best = group.best
    _, script = here.store.results.artifact(best.id, REPRO)
    names = {artifact.name for artifact in here.store.results.artifacts(best.id)}
    packed = here.store.results.artifact(best.id, ARCHIVE)[1] if ARCHIVE in names else None
    if packed is not None:
        _check_size(packed, best)
    options = Options(toolchain=toolchain, device=best.options.device, witness=False)
    submission = Submission(script, REPRO, options, packed)
    return here.retest(group.signature, submission, submitter(here.settings), who.label, [group.project])


def _check_size(packed: bytes, job: Job) -> None:
    """Refuse an archive larger than the limit of a submission: a job may leave more than one may begin with."""
    try:
        with archive.unpacked(packed):
            pass
    except InvalidScript as error:
        raise Problem(
            409,
            "repro-too-large",
            f"The repro of job {job.id} cannot be run again by the service: {error}. Run it by hand.",
        ) from None


def _body(group: FailureGroup) -> FailureBody:
    return FailureBody(**_fields(group))


def _fields(group: FailureGroup) -> dict[str, Any]:
    return {
        **{name: getattr(group, name) for name in FailureBody.model_fields if name not in ("latest", "best", "url")},
        "operators": list(group.operators),
        "latest": group.latest.id if group.latest else None,
        "best": group.best.id if group.best else None,
        "url": url_for("failures.get_failure", signature=group.signature, project=group.project),
    }


def _whole(group: FailureGroup) -> dict[str, Any]:
    store, projects = service().store, [group.project]
    return WholeFailureBody(
        **_fields(group),
        members=[
            MemberBody(job=job_body(member.job, failure=group.signature), because=member.because)
            for member in store.groups.members(group.signature, projects)
        ],
        history=[HistoryBody(**vars(line)) for line in store.groups.history(group.signature, projects)],
    ).model_dump(mode="json")
