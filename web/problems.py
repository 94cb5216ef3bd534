"""Errors as ``application/problem+json`` (RFC 9457) for programs, and as a page for people. No traceback leaves."""

from __future__ import annotations

import errno
import logging
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from json import JSONDecodeError
from typing import Any

import structlog
from flask import Flask, Response, g, jsonify, render_template, request
from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as AllConnectionsTaken
from werkzeug.exceptions import HTTPException, InternalServerError, RequestEntityTooLarge

from minimizer.errors import MinimizerError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"

DISK_FULL = "disk-full"
NO_ROOM = (
    "The disk of the web server's temporary files is full: nothing large can come or go until there is room again."
)


class ProblemBody(BaseModel):
    """RFC 9457 problem details."""

    type: str = Field(
        description="Names the sort of problem; stable, made for programs.",
        examples=["urn:minimizer:problem:unknown-job"],
    )
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, and what to do next.")
    instance: str = Field(description="The path that was asked for.")
    request_id: str = Field(description="Names this request in the log of the service.")


class Problem(Exception):
    """An error whose text is meant for the client."""

    def __init__(self, status: int, slug: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = HTTPStatus(status)
        self.slug = slug
        self.detail = detail
        self.headers = dict(headers or {})


def problem_of(error: Exception) -> Problem | None:
    """The problem that an error of the layers below is for a client; ``None`` if it is our own fault."""
    match error:
        case Problem():
            return error
        case MinimizerError() if error.slug:
            headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
            return Problem(error.status, error.slug, str(error), headers)
        case DBAPIError() if _is_full(error):
            log.error("the disk of the database is full", exc_info=error)
            return Problem(
                503,
                DISK_FULL,
                "The disk of the database is full: nothing can be stored until there is room again.",
                {"Retry-After": "30"},
            )
        case OSError() if has_no_room(error):
            log.error("the disk of temporary files is full", exc_info=error)
            return Problem(503, DISK_FULL, NO_ROOM, {"Retry-After": "30"})
        case (
            OperationalError() | InterfaceError() | InternalError() | AllConnectionsTaken()
        ):  # the third: it takes no writes
            log.error("the database does not answer", exc_info=error)
            return Problem(
                503, "unavailable", "The database does not answer at the moment. Try again soon.", {"Retry-After": "5"}
            )
    return None


def has_no_room(error: OSError) -> bool:
    """Whether a disk had no room for a file of ours."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _is_full(error: DBAPIError) -> bool:
    """Whether SQLite or PostgreSQL had no room on its disk."""
    said = error.orig
    return getattr(said, "sqlite_errorname", "") == "SQLITE_FULL" or getattr(said, "sqlstate", "") == "53100"


def invalid_request(error: ValidationError) -> Response:
    """flask-openapi's answer if a path, query, header or body does not fit its model."""
    return respond(Problem(422, "invalid-parameter", explain(error)))


def explain(error: ValidationError) -> str:
    """The error of a request, in terms of its fields and not of our classes."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {_fault(e)}" for e in error.errors())


def not_json(error: ValueError) -> Problem:
    """The answer to a body that is not JSON."""
    match error:
        case JSONDecodeError():
            said = f" (line {error.lineno}, column {error.colno}): {error.msg}"
        case UnicodeDecodeError():
            said = f": it is not UTF-8 text (byte {error.start})"
        case _:
            said = f": {error}"
    return Problem(400, "bad-request", f"The body is not JSON{said}.")


def install(app: Flask) -> None:
    """Make ``app`` answer every error as a problem, and name every request."""

    @app.before_request
    def name_request() -> None:
        g.request_id = secrets.token_hex(8)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request=g.request_id, **_job_of(request.view_args))

    @app.after_request
    def tell_name(response: Response) -> Response:
        response.headers["X-Request-Id"] = _request_id()
        return response

    @app.errorhandler(HTTPException)
    def on_http_error(error: HTTPException) -> Response | HTTPException:
        if isinstance(error, InternalServerError) and isinstance(error.original_exception, Exception):
            return on_error(error.original_exception)  # raised after the view, where Flask wraps it
        status = error.code
        if status is None or status < 400:  # a redirect, or a response that was aborted with
            return error
        headers = {name: value for name, value in error.get_headers() if name in ("Allow", "Retry-After")}
        return respond(Problem(status, _slug(status), _detail(error), headers))

    @app.errorhandler(Exception)
    def on_error(error: Exception) -> Response:
        problem = problem_of(error)
        if problem is None:
            log.error("request %s to %s failed", _request_id(), request.path, exc_info=error)
            problem = Problem(
                500,
                "internal-error",
                f"This is a fault of the service, not yours. Its log has the details under {_request_id()}.",
            )
        return respond(problem)


def respond(problem: Problem) -> Response:
    """Answer with a problem: JSON for programs, a page for people."""
    body = ProblemBody(
        type=f"urn:minimizer:problem:{problem.slug}",
        title=problem.status.phrase,
        status=problem.status,
        detail=problem.detail,
        instance=request.path,
        request_id=_request_id(),
    )
    if wants_page():
        response = Response(render_template("error.html", problem=body), mimetype="text/html")
    else:
        response = jsonify(body.model_dump())
        response.mimetype = MEDIA_TYPE
    response.status_code = problem.status
    response.headers.update(problem.headers)
    response.headers["Cache-Control"] = "no-store"
    return response


def wants_page() -> bool:
    """Whether a person is looking: the path is not the API's, and HTML is the client's preferred type."""
    if request.path.startswith("/api/"):
        return False
    accept = request.accept_mimetypes
    return bool(accept) and accept.best_match(["application/json", "text/html"]) == "text/html"


def _fault(details: ErrorDetails) -> str:
    # Where no body of JSON was sent, the model is given `None`; a body that is a string is tried as JSON once more.
    if details["type"] == "model_type" or (details["type"] == "json_invalid" and not details["loc"]):
        return "send a JSON object" + ("" if details["loc"] else ", as application/json")
    return details["msg"]


def _job_of(view_args: dict[str, Any] | None) -> dict[str, Any]:
    return {"job": view_args["job_id"]} if view_args and "job_id" in view_args else {}


def _request_id() -> str:
    return str(g.get("request_id", "-"))


def _slug(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "-")


def _detail(error: HTTPException) -> str:
    if isinstance(error, RequestEntityTooLarge):
        return (
            "The request is too large. How large a script may be is a setting, MINIMIZER_MAX_SCRIPT_BYTES, and how large an "
            "archive MINIMIZER_MAX_ARCHIVE_BYTES."
        )
    return error.description or HTTPStatus(error.code or 500).description
