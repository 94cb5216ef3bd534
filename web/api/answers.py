"""How answers other than success are documented in OpenAPI. `web.problems` makes them."""

from __future__ import annotations

from typing import Any

from flask_openapi.types import ResponseDict
from pydantic import BaseModel

from web.problems import MEDIA_TYPE, ProblemBody


def problem_response(description: str) -> dict[str, Any]:
    """How a problem is documented in OpenAPI."""
    return {"description": description, "content": {MEDIA_TYPE: {"schema": reference(ProblemBody)}}}


def operation_id(*, name: str, path: str, method: str) -> str:
    """The name of an operation: that of its function, which a generated client uses too."""
    return name


def reference(model: type[BaseModel]) -> dict[str, str]:
    """A schema that the document has under the name of its model."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


UNKNOWN: ResponseDict = {404: problem_response("There is no such job, or it is in a project that is not open to you.")}

NO_PROJECT = problem_response("There is no such project, or it is not open to you.")

BROKEN: ResponseDict = {400: problem_response("The body is not JSON.")}
"""The answers of operations that take a body."""

COMMON: ResponseDict = {
    401: problem_response("Access control is on, and no key was sent that counts."),
    403: problem_response("This key may not do that, or the request comes from another site's page."),
    422: problem_response("A parameter is unknown or out of range."),
    429: problem_response("Too many requests, or too many open jobs; Retry-After says when to come back."),
    503: problem_response("The database does not answer at the moment."),
}
"""The common answers of all operations."""

SECURITY: list[dict[str, list[str]]] = [{"token": []}, {}]
"""A token, or nothing if access control is off."""
