"""The served OpenAPI document: flask-openapi's result, completed so that a generator makes a usable client of it.

Every schema appears once, under its name; every answer lists its headers; an operation has the name of its function.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from flask_openapi.openapi import OpenAPI
from pydantic import BaseModel

from minimizer.options import Options
from minimizer.settings import Settings
from web.api.schemas import UPLOAD, RetestBody, ScriptBody
from web.submission import Handling, toolchains

Json = dict[str, Any]

REFS = "#/components/schemas/{model}"
MODELS: tuple[type[BaseModel], ...] = (ScriptBody, RetestBody)
"""Bodies of requests that flask-openapi does not see in the signature of a view."""
HEADERS: Mapping[str, tuple[str, Json]] = {
    "X-Request-Id": ("Names this request in the log of the service.", {"type": "string"}),
    "Retry-After": ("Seconds after which to ask again.", {"type": "integer", "minimum": 0}),
    "Location": ("Path of the job.", {"type": "string", "format": "uri-reference"}),
    "ETag": ("Of this state; If-None-Match takes it.", {"type": "string"}),
    "Link": ('Address of the next page, with rel="next".', {"type": "string"}),
    "WWW-Authenticate": ("How to show a key.", {"type": "string"}),
}
OF_STATUS = {"401": ["WWW-Authenticate"], "409": ["Retry-After"], "429": ["Retry-After"], "503": ["Retry-After"]}
"""Headers of problems, whatever the operation; all except the first only where a retry helps."""
OF_OPERATION = {
    ("submit_job", "200"): ["Location"],
    ("submit_job", "202"): ["Location", "Retry-After"],
    ("list_jobs", "200"): ["Link"],
    ("get_job", "200"): ["ETag", "Retry-After"],
    ("get_job", "304"): ["ETag", "Retry-After"],
    ("get_file", "200"): ["ETag"],
    ("get_file", "304"): ["ETag"],
    ("get_artifact", "200"): ["ETag"],
    ("get_artifact", "304"): ["ETag"],
}
_FILE = {"type": "string", "format": "binary"}
KNOWN = "If-None-Match", "The ETag of the last answer: 304 is the answer while nothing has changed."
ASKED_WITH = {
    "get_job": KNOWN,
    "get_file": KNOWN,
    "get_artifact": KNOWN,
    "get_events": ("Last-Event-ID", "The id of the last event that was seen; what follows it is sent."),
}
"""Headers of requests."""


def document(app: OpenAPI, settings: Settings) -> Json:
    """The whole document; ``settings`` contain the available interpreters."""
    made: Json = copy.deepcopy(app.api_doc)
    schemas: Json = made["components"]["schemas"]
    for model in MODELS:
        schema = model.model_json_schema(ref_template=REFS)
        schemas |= schema.pop("$defs", {}) | {model.__name__: schema}
    schemas[UPLOAD] = _upload()
    for one in schemas.values():
        _name_toolchains(one.get("properties", {}), toolchains(settings))
    made["components"]["headers"] = {
        name: {"description": description, "schema": schema} for name, (description, schema) in HEADERS.items()
    }
    for operation in _operations(made):
        _complete(operation)
    return made


def _operations(document: Json) -> Iterator[Json]:
    for item in document["paths"].values():
        yield from item.values()


def _upload() -> Json:
    """A multipart submission: a file, a field for each option, and the handling of the job."""
    fields: Json = {
        "script": {**_FILE, "contentMediaType": "text/x-python", "description": "The Python script."},
        "archive": {
            **_FILE,
            "contentMediaType": "application/zip",
            "description": "A zip file of a project, in place of a script.",
        },
        "main": {
            "type": "string",
            "description": "With `archive`: the path in it of the script to run. By default main.py, or the only script at its top.",
        },
    }
    for model in (Options, Handling):
        fields |= model.model_json_schema()["properties"]
    return {
        "title": UPLOAD,
        "type": "object",
        "description": "A script or a project as a file.",
        "properties": fields,
        "additionalProperties": False,
        # One of the two; within allOf, since generators create a type for each of several neighbouring schemas.
        "allOf": [{"oneOf": [{"required": ["script"]}, {"required": ["archive"]}]}],
        "dependentRequired": {"main": ["archive"]},
    }


def _name_toolchains(properties: Json, names: list[str]) -> None:
    """List the available interpreters: others are refused."""
    field = properties.get("toolchain")
    if field is not None and "anyOf" in field:
        chosen = [{"type": "string", "enum": names}] if names else []
        field["anyOf"] = [*chosen, {"type": "null"}]


def _complete(operation: Json) -> None:
    name = operation["operationId"]
    if name in ASKED_WITH:
        header, description = ASKED_WITH[name]
        parameter = {"name": header, "in": "header", "required": False, "description": description}
        operation.setdefault("parameters", []).append({**parameter, "schema": {"type": "string"}})
    for status, response in operation["responses"].items():
        names = ["X-Request-Id", *OF_STATUS.get(status, []), *OF_OPERATION.get((name, status), [])]
        response["headers"] = {header: {"$ref": f"#/components/headers/{header}"} for header in names}
