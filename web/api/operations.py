"""For those who run the service: probes, metrics, workers, and the API's own documentation."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from flask import Blueprint, Response, current_app, redirect, render_template, send_from_directory, url_for
from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from flask_openapi.openapi import OpenAPI
from werkzeug.wrappers import Response as BaseResponse

from web.access.table import identity
from web.api.answers import COMMON, SECURITY, operation_id, problem_response
from web.api.document import document
from web.api.schemas import HealthBody, QueueBody, WorkersBody, worker_body
from web.metrics import Metrics
from web.service import service
from web.workers import queues

_SWAGGER = Path(str(files("flask_openapi_swagger"))) / "templates" / "swagger"

operations = APIBlueprint(
    "operations",
    __name__,
    abp_tags=[Tag(name="operations", description="Is it well?")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)
documentation = Blueprint("documentation", __name__)


@operations.get("/healthz", summary="The process is alive", responses={200: HealthBody})
def healthz() -> dict[str, Any]:
    return HealthBody(status="ok").model_dump()


@operations.get(
    "/readyz",
    summary="The database can be written to",
    responses={200: HealthBody, 503: problem_response("The database does not answer, or its disk is full.")},
)
def readyz() -> dict[str, Any]:
    service().readiness.check()
    return HealthBody(status="ok").model_dump()


@operations.get(
    "/api/v1/workers", summary="The workers that were seen lately, and the queues", responses={200: WorkersBody}
)
def list_workers() -> dict[str, Any]:
    store = service().store
    rows = store.workers.all()
    return WorkersBody(
        workers=[worker_body(row, identity().sees(row.project)) for row in rows],
        queues=[QueueBody(**vars(queue)) for queue in queues(store, rows)],
    ).model_dump(mode="json")


@operations.get(
    "/metrics",
    summary="Metrics for Prometheus",
    responses={200: {"description": "Text exposition.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics() -> Response:
    found = current_app.extensions["minimizer.metrics"]
    assert isinstance(found, Metrics)
    text, content_type = found.exposition()
    return Response(text, content_type=content_type)


@documentation.get("/api/v1/openapi.json")
def openapi_json() -> dict[str, Any]:
    return document(cast(OpenAPI, current_app), service().settings)


@documentation.get("/api/v1")
def root() -> BaseResponse:
    return redirect(url_for("documentation.docs"))


@documentation.get("/docs")
def docs() -> str:
    return render_template("docs.html")


@documentation.get("/docs/swagger/<path:name>")
def swagger_file(name: str) -> Response:
    return send_from_directory(_SWAGGER, name, max_age=3600)
