"""The files of a job, raw. They stem from a user's script, so a browser must never treat one as a page of ours."""

from __future__ import annotations

import codecs
import tempfile
import zipfile
from collections.abc import Iterable
from itertools import chain
from typing import Any

from flask import Response, request
from flask_openapi.blueprint import APIBlueprint
from flask_openapi.models.tag import Tag
from werkzeug.http import dump_options_header
from werkzeug.wrappers import Response as BaseResponse
from werkzeug.wsgi import FileWrapper

from minimizer.store import Job, UnknownArtifact
from web.access.security import RAW_CONTENT_SECURITY_POLICY
from web.api.answers import COMMON, SECURITY, UNKNOWN, operation_id, problem_response
from web.api.schemas import FILES, ArtifactPath, ArtifactsBody, FilePath, JobPath, artifact_body
from web.problems import Problem
from web.service import service

_FIRST_BYTES = 1 << 13
_MEDIA_TYPES = ("text/plain", "application/json", "application/octet-stream")
_RAW: dict[Any, Any] = {
    200: {"description": "The file.", "content": {media_type: {"schema": {}} for media_type in _MEDIA_TYPES}},
    304: None,
}

files = APIBlueprint(
    "files",
    __name__,
    url_prefix="/api/v1/jobs/<job_id>",
    abp_tags=[Tag(name="files", description="What a job leaves behind.")],
    abp_responses=COMMON,
    abp_security=SECURITY,
    operation_id_callback=operation_id,
)


@files.get("/artifacts", summary="List the artifacts of a job", responses={200: ArtifactsBody, **UNKNOWN})
def list_artifacts(path: JobPath) -> dict[str, Any]:
    found = service().store.results.artifacts(path.job_id)
    return ArtifactsBody(artifacts=[artifact_body(path.job_id, one) for one in found]).model_dump(mode="json")


@files.get("/artifacts/<name>", summary="One artifact, raw", responses={**_RAW, **UNKNOWN})
def get_artifact(path: ArtifactPath) -> BaseResponse:
    return _artifact(path.job_id, path.name)


@files.get(
    f"/<any({','.join(map(repr, FILES))}):name>",
    summary=", ".join(FILES),
    responses={
        **_RAW,
        409: problem_response("The job has not come that far; Retry-After says when to look again."),
        **UNKNOWN,
    },
)
def get_file(path: FilePath) -> BaseResponse:
    store = service().store
    job = store.jobs.get(path.job_id)
    if path.name == "script.py":
        script = store.jobs.script(job.id)
        return raw([script], len(script), job.filename, etag=job.script_sha)
    try:
        return _artifact(job.id, path.name)
    except UnknownArtifact:
        raise _not_ready(job, path.name) from None


@files.get(
    "/files.zip",
    operation_id="get_all_files",
    summary="All files of a job as one zip",
    responses={
        200: {"description": "The archive.", "content": {"application/zip": {"schema": {}}}},
        **UNKNOWN,
    },
)
def get_all(path: JobPath) -> BaseResponse:
    store = service().store
    job = store.jobs.get(path.job_id)
    packed = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the response)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("script.py", store.jobs.script(job.id))
        for artifact in store.results.artifacts(job.id):
            _, pieces = store.results.artifact_stream(job.id, artifact.name)
            with archive.open(artifact.name, "w") as file:
                for piece in pieces:
                    file.write(piece)
    size = packed.tell()
    packed.seek(0)
    response = Response(FileWrapper(packed), content_type="application/zip", direct_passthrough=True)
    response.call_on_close(packed.close)
    response.headers["Content-Disposition"] = dump_options_header("attachment", {"filename": f"{job.id}.zip"})
    response.headers["Content-Security-Policy"] = RAW_CONTENT_SECURITY_POLICY
    response.headers["Cache-Control"] = "no-cache"
    response.content_length = size
    return response


def _artifact(job_id: str, name: str) -> BaseResponse:
    store = service().store
    known = store.results.artifact_info(job_id, name)
    if request.if_none_match.contains(known.sha256):
        return raw([], known.size, name, etag=known.sha256)  # a client with a current copy needs no unpacking
    artifact, pieces = store.results.artifact_stream(job_id, name)
    return raw(pieces, artifact.size, artifact.name, etag=artifact.sha256)


def raw(pieces: Iterable[bytes], size: int, filename: str, etag: str) -> BaseResponse:
    """A file for display as text or for download, and as nothing else; its first bytes decide which."""
    rest = iter(pieces)
    first = next(rest, b"")
    text = _is_text(first[:_FIRST_BYTES])
    json_file = text and filename.endswith(".json")
    response = Response(
        chain([first], rest),
        content_type="application/json"
        if json_file
        else "text/plain; charset=utf-8"
        if text
        else "application/octet-stream",
    )
    disposition = "inline" if text and "download" not in request.args else "attachment"
    response.headers["Content-Disposition"] = dump_options_header(disposition, {"filename": filename})
    response.headers["Content-Security-Policy"] = RAW_CONTENT_SECURITY_POLICY
    response.headers["Cache-Control"] = "no-cache"
    response.content_length = size
    response.set_etag(etag)
    return response.make_conditional(request)


def _is_text(beginning: bytes) -> bool:
    if b"\0" in beginning:
        return False
    try:
        # It may end in the middle of a character.
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return False
    return True


def _not_ready(job: Job, name: str) -> Problem:
    if job.status.is_final:
        return Problem(404, "no-such-result", f"This job ended {job.status} and left no {name}.")
    return Problem(409, "not-ready", f"The job is {job.status}; it has no {name} yet.", {"Retry-After": "2"})
