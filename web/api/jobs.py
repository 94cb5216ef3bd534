"""REST: submit, list, watch, cancel, skip, retry, pin and delete jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Response, jsonify, request, url_for
from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from pydantic import ValidationError
from werkzeug.exceptions import BadRequest, UnsupportedMediaType
from werkzeug.wrappers import Response as BaseResponse

from minimizer.errors import UserError
from minimizer.report.model import Report
from minimizer.store import Job
from web import filters
from web.access import audit
from web.access.table import home, identity, still_sees, submitter
from web.api import stream
from web.api.answers import BROKEN, COMMON, NO_PROJECT, SECURITY, UNKNOWN, operation_id, problem_response, reference
from web.api.schemas import (
    OPTION_FAULT,
    UPLOAD,
    BatchBody,
    EventsQuery,
    JobBody,
    JobPath,
    JobsBody,
    ListQuery,
    RetryQuery,
    ScriptBody,
    SkipQuery,
    WaitQuery,
    job_body,
)
from web.problems import Problem, explain, problem_of
from web.service import service
from web.submission import Handling, Submission, check, from_upload

MAX_IDEMPOTENCY_KEY = 200


api = APIBlueprint(
    "api",
    __name__,
    url_prefix="/api/v1",
    abp_tags=[Tag(name="jobs", description="Failing scripts in, minimal repros out.")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)

_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeat a request under the same key, and it makes nothing new.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY},
    "example": "build-1743/model.py",
}
# Schema of one event. `data` is JSON; only events of the job itself have an `id`.
_EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("event", "data", "id")},
    "example": {"id": "17", "event": "progress", "data": '{"time": 1767322000.5, "nodes": 12, "trials": 40}'},
}
_SUBMIT_RESPONSES: dict[Any, Any] = {
    400: problem_response("The request has no script or several of them, or its JSON is broken."),
    404: NO_PROJECT,
    409: problem_response("A request with this Idempotency-Key is being worked on at this moment."),
    413: problem_response("The script or archive is too large."),
    415: problem_response("Neither multipart nor JSON."),
    422: problem_response(
        "The script or an option cannot be accepted, or the Idempotency-Key was used for another job."
    ),
}


@api.post(
    "/jobs",
    summary="Submit a script",
    description="A script as multipart file `script`, or a zip file with all it needs as `archive`, with option fields; or "
    "a script as JSON. A job that has the same script, name and options, and is open or ended well, is the answer "
    "unless `force` is set. Honours `Idempotency-Key`.",
    request_body={
        "required": True,
        "content": {
            "multipart/form-data": {"schema": {"$ref": f"#/components/schemas/{UPLOAD}"}},
            "application/json": {"schema": reference(ScriptBody)},
        },
    },
    responses={
        200: {
            "description": "There is such a job, and it has ended.",
            "content": {"application/json": {"schema": reference(JobBody)}},
        },
        202: JobBody,
        **_SUBMIT_RESPONSES,
    },
    openapi_extensions={"parameters": [_KEY_PARAMETER]},
)
def submit_job() -> Response:
    submission, handling = _submission()
    ((job, _),) = _taken([submission], handling.project, handling.force)
    response = jsonify(_body(job).model_dump(mode="json"))
    response.headers["Location"] = url_for("api.get_job", job_id=job.id)
    if job.status.is_final:
        return response
    response.status_code = 202
    return _not_final_yet(response)


@api.post(
    "/batches",
    summary="Submit many scripts",
    description="All of them are taken, or none. Honours `Idempotency-Key`.",
    responses={202: JobsBody, **BROKEN, **{status: _SUBMIT_RESPONSES[status] for status in (404, 409, 413, 422)}},
    openapi_extensions={"parameters": [_KEY_PARAMETER]},
)
def submit_batch(body: BatchBody) -> tuple[dict[str, Any], int]:
    settings = service().settings
    submissions = []
    for index, entry in enumerate(body.jobs):
        try:
            submissions.append(check(_encode(entry.script), entry.filename, entry.options, settings, entry.priority))
        except (UserError, Problem) as error:
            problem = problem_of(error)
            assert problem is not None
            raise Problem(problem.status, problem.slug, f"jobs.{index}: {problem.detail}") from None
    answers = _taken(submissions, body.project, body.force)
    audit.made(*(job.id for job, _ in answers))
    return JobsBody(jobs=_bodies([job for job, _ in answers]), next_cursor=None).model_dump(mode="json"), 202


@api.get("/jobs", summary="List jobs, newest first", responses={200: JobsBody})
def list_jobs(query: ListQuery) -> Response:
    jobs, next_cursor = service().store.jobs.page(
        status=query.status,
        kind=query.kind,
        q=query.q,
        projects=identity().projects,
        cursor=query.cursor,
        limit=query.limit,
    )
    response = jsonify(JobsBody(jobs=_bodies(jobs), next_cursor=next_cursor).model_dump(mode="json"))
    response.headers["Cache-Control"] = "no-cache"
    if next_cursor is not None:
        following = urlencode({**request.args.to_dict(), "cursor": next_cursor})
        response.headers["Link"] = f'<{url_for("api.list_jobs")}?{following}>; rel="next"'
    return response


@api.get("/jobs/<job_id>", summary="Look at a job, or wait for it", responses={200: JobBody, 304: None, **UNKNOWN})
def get_job(path: JobPath, query: WaitQuery) -> BaseResponse:
    here = service()
    job = here.store.jobs.get(path.job_id)
    if query.wait and not job.status.is_final:
        known = job.version if request.if_none_match.contains_weak(_etag(job.version)) else None
        # A client with an older version is answered at once: the change it waits for has happened.
        if known is not None or not request.if_none_match:
            job = stream.wait_for_job(here.store, here.watcher, here.polls, job, query.wait, known)
    response = jsonify(_body(job, here.store.results.report(job.id)).model_dump(mode="json", by_alias=True))
    response.set_etag(_etag(job.version))
    response.headers["Cache-Control"] = "no-cache"
    if not job.status.is_final:
        _not_final_yet(response)
    return response.make_conditional(request)


@api.get(
    "/jobs/<job_id>/events",
    summary="Watch a job",
    description="Server-sent events; resumable by `Last-Event-ID`. The last event is `end`.",
    responses={
        200: {"description": "The stream.", "content": {"text/event-stream": {"schema": _EVENT}}},
        503: problem_response("All event streams, or those of this user, are taken; poll instead."),
        **UNKNOWN,
    },
)
def get_events(path: JobPath, query: EventsQuery) -> Response:
    here = service()
    job = here.store.jobs.get(path.job_id)
    return stream.event_stream(
        here.store, here.watcher, here.streams, identity().name, job, _after(query), still_sees(job.project)
    )


@api.post(
    "/jobs/<job_id>/cancel",
    summary="Stop a job; what it has found so far is kept",
    description="Where the job says `can_stop`, it ends with the verdict that it has reached, as if it had come to its end; "
    "before that as `cancelled`, with the best repro so far. Safe to repeat.",
    responses={202: JobBody, **UNKNOWN},
)
def cancel_job(path: JobPath) -> tuple[dict[str, Any], int]:
    return _body(service().store.jobs.request_cancel(path.job_id)).model_dump(mode="json"), 202


@api.post(
    "/jobs/<job_id>/skip",
    summary="Skip the step that a job is at",
    description="Of those that only add to the report of a verified repro: the job goes on with the next one, and what the step was "
    "to find stays unknown, which a note tells. `skippable` of a job names the step, or is null. Safe to repeat.",
    responses={
        202: JobBody,
        409: problem_response("There is nothing to skip, or not the step that is named."),
        **UNKNOWN,
    },
)
def skip_step(path: JobPath, query: SkipQuery) -> tuple[dict[str, Any], int]:
    return _body(service().store.jobs.request_skip(path.job_id, query.step)).model_dump(mode="json"), 202


@api.post(
    "/jobs/<job_id>/retry",
    summary="Run a job again",
    description="From the beginning; or, with `budget`, from where it stopped when its time was up. A job that waits stays as it is.",
    responses={202: JobBody, 409: problem_response("The job is running: cancel it first."), **UNKNOWN},
)
def retry_job(path: JobPath, query: RetryQuery) -> tuple[dict[str, Any], int]:
    return _body(service().retry(path.job_id, query.budget)).model_dump(mode="json"), 202


@api.put("/jobs/<job_id>/pin", summary="Keep a job, however old it grows", responses={200: JobBody, **UNKNOWN})
def pin_job(path: JobPath) -> dict[str, Any]:
    return _body(service().store.jobs.pin(path.job_id, True)).model_dump(mode="json")


@api.delete("/jobs/<job_id>/pin", summary="Let a job go when its time comes", responses={200: JobBody, **UNKNOWN})
def unpin_job(path: JobPath) -> dict[str, Any]:
    return _body(service().store.jobs.pin(path.job_id, False)).model_dump(mode="json")


@api.delete(
    "/jobs/<job_id>",
    summary="Delete a job and all it left",
    responses={204: None, 409: problem_response("The job is running: cancel it first."), **UNKNOWN},
)
def delete_job(path: JobPath) -> tuple[str, int]:
    service().store.jobs.delete(path.job_id)
    return "", 204


def _body(job: Job, report: Report | None = None) -> JobBody:
    # Only a failed job has a group; no query for the others, since this answers every poll.
    groups = service().store.groups.of_jobs([job.id]) if job.failure is not None else {}
    return job_body(job, report, groups.get(job.id))


def _bodies(jobs: Sequence[Job]) -> list[JobBody]:
    groups = service().store.groups.of_jobs([job.id for job in jobs])
    return [job_body(job, failure=groups.get(job.id)) for job in jobs]


def _taken(submissions: list[Submission], project: str | None, force: bool) -> list[tuple[Job, bool]]:
    here = service()
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key) <= MAX_IDEMPOTENCY_KEY:
        raise Problem(422, "invalid-parameter", f"An Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY} characters.")
    return here.submit(submissions, home(project), submitter(here.settings), idempotency_key=key, force=force)


def _submission() -> tuple[Submission, Handling]:
    settings = service().settings
    if request.mimetype == "multipart/form-data":
        return from_upload(request.form, request.files, settings)
    if request.mimetype != "application/json":
        raise UnsupportedMediaType(
            "Send the script as multipart/form-data (file field 'script') or as application/json."
        )
    try:
        body = ScriptBody.model_validate(request.get_json())
    except ValidationError as error:
        is_option = all(fault["type"] == OPTION_FAULT for fault in error.errors())
        raise Problem(422, "invalid-option" if is_option else "invalid-body", explain(error)) from None
    return check(_encode(body.script), body.filename, body.options, settings, body.priority), body


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest("The script holds half of a surrogate pair, which is no text.") from None


def _after(query: EventsQuery) -> int:
    last = filters.number(request.headers.get("Last-Event-ID", ""))
    return query.after if last is None else last


def _etag(version: int) -> str:
    return f"v{version}"


def _not_final_yet(response: Response) -> Response:
    response.headers["Retry-After"] = str(stream.RETRY_SECONDS)
    return response
