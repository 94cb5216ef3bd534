"""REST: submit, list, watch, cancel, retry and delete jobs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from flask import Response, jsonify, request, url_for
from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from flask_openapi.types import ResponseDict
from pydantic import ValidationError
from werkzeug.exceptions import BadRequest, UnsupportedMediaType
from werkzeug.wrappers import Response as BaseResponse

from web import stream
from web.problems import MEDIA_TYPE, Problem, ProblemBody
from web.schemas import (
    EventsQuery,
    JobBody,
    JobPath,
    JobsBody,
    ListQuery,
    ScriptBody,
    WaitQuery,
    job_body,
)
from web.service import service
from web.submission import Submission, check, from_upload

MAX_IDEMPOTENCY_KEY = 200


def problem_response(description: str) -> dict[str, Any]:
    """How a problem is documented in OpenAPI."""
    return {"description": description, "content": {MEDIA_TYPE: {"schema": ProblemBody.model_json_schema()}}}


UNKNOWN: ResponseDict = {404: problem_response("There is no such job.")}
INVALID: ResponseDict = {422: problem_response("A parameter is unknown or out of range.")}

_SUBMIT_BODY = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["script"],
                "properties": {"script": {"type": "string", "format": "binary"}},
                "additionalProperties": {"description": "One field per option; lists repeat the field."},
            }
        },
        "application/json": {"schema": ScriptBody.model_json_schema()},
    },
}

api = APIBlueprint(
    "api",
    __name__,
    url_prefix="/api/v1",
    abp_tags=[Tag(name="jobs", description="Failing scripts in, minimal repros out.")],
    abp_responses=INVALID,
)


@api.post(
    "/jobs",
    summary="Submit a script",
    description="A script as multipart file `script` with option fields, or as JSON. Honours `Idempotency-Key`.",
    request_body=_SUBMIT_BODY,
    responses={
        202: JobBody,
        400: problem_response("The request has no script, or its JSON is broken."),
        413: problem_response("The script is too large."),
        415: problem_response("Neither multipart nor JSON."),
        422: problem_response("The script or an option cannot be accepted."),
        429: problem_response("Too many jobs wait."),
    },
)
def submit_job() -> Response:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key) <= MAX_IDEMPOTENCY_KEY:
        raise Problem(422, "invalid-parameter", f"An Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY} characters.")
    job = service().submit(_submission(), key)
    response = jsonify(job_body(job).model_dump(mode="json"))
    response.status_code = 202
    response.headers["Location"] = url_for("api.get_job", job_id=job.id)
    return _not_final_yet(response)


@api.get("/jobs", summary="List jobs, newest first", responses={200: JobsBody})
def list_jobs(query: ListQuery) -> Response:
    jobs, next_cursor = service().store.jobs(
        status=query.status, kind=query.kind, q=query.q, cursor=query.cursor, limit=query.limit
    )
    response = jsonify(JobsBody(jobs=[job_body(job) for job in jobs], next_cursor=next_cursor).model_dump(mode="json"))
    response.headers["Cache-Control"] = "no-cache"
    if next_cursor is not None:
        following = urlencode({**request.args.to_dict(), "cursor": next_cursor})
        response.headers["Link"] = f'<{url_for("api.list_jobs")}?{following}>; rel="next"'
    return response


@api.get("/jobs/<job_id>", summary="Look at a job, or wait for it", responses={200: JobBody, 304: None, **UNKNOWN})
def get_job(path: JobPath, query: WaitQuery) -> BaseResponse:
    here = service()
    job = here.store.job(path.job_id)
    if query.wait and not job.status.is_final:
        known = job.version if request.if_none_match.contains(_etag(job.version)) else None
        # A client that knows an older version is answered at once: what it waits for has happened.
        if known is not None or not request.if_none_match:
            job = stream.wait_for_job(here.store, here.watcher, here.polls, job, query.wait, known)
    response = jsonify(job_body(job, here.store.report(job.id)).model_dump(mode="json"))
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
        200: {"description": "The stream.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
        503: problem_response("All event streams are taken; poll instead."),
        **UNKNOWN,
    },
)
def get_events(path: JobPath, query: EventsQuery) -> Response:
    here = service()
    job = here.store.job(path.job_id)
    return stream.event_stream(here.store, here.watcher, here.streams, job, _after(query))


@api.post(
    "/jobs/<job_id>/cancel", summary="Stop a job; what it has found so far is kept", responses={202: JobBody, **UNKNOWN}
)
def cancel_job(path: JobPath) -> tuple[dict[str, Any], int]:
    return job_body(service().store.request_cancel(path.job_id)).model_dump(mode="json"), 202


@api.post(
    "/jobs/<job_id>/retry",
    summary="Run a job again",
    responses={202: JobBody, 409: problem_response("The job is still running."), **UNKNOWN},
)
def retry_job(path: JobPath) -> tuple[dict[str, Any], int]:
    return job_body(service().retry(path.job_id)).model_dump(mode="json"), 202


@api.delete(
    "/jobs/<job_id>",
    summary="Delete a job and all it left",
    responses={204: None, 409: problem_response("The job is running: cancel it first."), **UNKNOWN},
)
def delete_job(path: JobPath) -> tuple[str, int]:
    service().store.delete(path.job_id)
    return "", 204


def _submission() -> Submission:
    settings = service().settings
    if request.mimetype == "multipart/form-data":
        return from_upload(request.form, request.files, settings)
    if request.mimetype == "application/json":
        try:
            body = ScriptBody.model_validate(request.get_json())
        except ValidationError as error:
            detail = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors())
            raise Problem(422, "invalid-body", detail) from None
        return check(_encode(body.script), body.filename, body.options, settings)
    raise UnsupportedMediaType("Send the script as multipart/form-data (file field 'script') or as application/json.")


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest("The script holds half of a surrogate pair, which is no text.") from None


def _after(query: EventsQuery) -> int:
    last = request.headers.get("Last-Event-ID", "")
    return int(last) if last.isascii() and last.isdigit() else query.after


def _etag(version: int) -> str:
    return f"v{version}"


def _not_final_yet(response: Response) -> Response:
    response.headers["Retry-After"] = str(stream.RETRY_SECONDS)
    return response
