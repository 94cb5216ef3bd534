"""A job as it comes in, from a form, a multipart upload, an archive or JSON: checked once, in one place."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError
from werkzeug.datastructures import FileStorage, MultiDict

from minimizer.errors import InvalidOption, InvalidScript
from minimizer.notebook import taken
from minimizer.options import Options, parse_options
from minimizer.script_text import check_script
from minimizer.service.archive import is_zip, main_script, unpacked
from minimizer.settings import Settings
from web.formats import ProjectName
from web.problems import Problem

DEFAULT_FILENAME = "script.py"
MAX_FILENAME = 120

# Options that hold several values; a form sends such a field once per value.
_LISTS = frozenset({"args", "env"})


@dataclass(frozen=True)
class Submission:
    """A script that is Python, under a harmless name, with options that are known."""

    script: bytes
    filename: str
    options: Options
    archive: bytes | None = None
    priority: int = 0


class Handling(BaseModel):
    """What is to be done with a job, beside what is asked of it."""

    model_config = ConfigDict(extra="forbid")

    project: ProjectName | None = Field(
        None, description="The project it goes to; needed if you are in several.", examples=["default"]
    )
    priority: StrictInt = Field(0, ge=-10, le=10, description="A higher one goes before other jobs of the project.")
    force: StrictBool = Field(
        False,
        description="Make a new job even if one has the same script, name and options, and is open or ended well.",
    )


def _of_types(*types: str) -> frozenset[str]:
    """The fields that may have values of these types of JSON."""
    return frozenset(
        name
        for model in (Options, Handling)
        for name, schema in model.model_json_schema()["properties"].items()
        if any(one.get("type") in types for one in schema.get("anyOf", [schema]))
    )


_LITERALS = _of_types("integer", "boolean")
"""Fields that are no texts."""
_NULLABLE = _of_types("null")


def check(script: bytes, filename: str | None, options: Options, settings: Settings, priority: int = 0) -> Submission:
    """Accept a job, or raise what is wrong with it. A notebook is accepted as the script made from its cells.

    Raises:
        InvalidScript: empty, not text, not Python, or too expensive to parse.
        Busy: too many long scripts are being parsed.
        InvalidOption: a toolchain that is not configured.
        Problem: too large (413).
    """
    name = clean_filename(filename)
    if is_zip(script):
        raise InvalidScript(
            f"{name} is a zip archive, not a script: send it as the file field 'archive'; the field 'main' names the script in it"
        )
    script, name = taken(script, name)
    if len(script) > settings.max_script_bytes:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "script-too-large",
            f"{name} has {len(script):,} bytes; at most {settings.max_script_bytes:,} are accepted. "
            "Cut data out of the script, or raise MINIMIZER_MAX_SCRIPT_BYTES.",
        )
    _check_toolchain(options, settings)
    check_script(script, name, settings.max_script_bytes, python=_python_of(options, settings))
    return Submission(script, name, options, priority=priority)


def check_archive(
    archive: bytes, main: str | None, options: Options, settings: Settings, priority: int = 0
) -> Submission:
    """Accept a zip file with a script and its files, or raise what is wrong with it.

    Raises:
        InvalidScript: no zip file, one that cannot be unpacked safely, or without a script that is Python.
        Busy: too many archives or long scripts are being parsed.
        InvalidOption: a toolchain that is not configured.
        Problem: too large (413).
    """
    if len(archive) > settings.max_archive_bytes:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "archive-too-large",
            f"The archive has {len(archive):,} bytes; at most {settings.max_archive_bytes:,} are accepted. "
            "Leave data out of it, or raise MINIMIZER_MAX_ARCHIVE_BYTES.",
        )
    with unpacked(archive) as files:
        name = main_script(files, main)
        script = files[name]
    _check_toolchain(options, settings)
    check_script(script, name, settings.max_script_bytes, python=_python_of(options, settings))
    return Submission(script, name, options, archive, priority)


def from_upload(
    form: MultiDict[str, str], files: MultiDict[str, FileStorage], settings: Settings
) -> tuple[Submission, Handling]:
    """Read a multipart request: the file ``script`` or ``archive``, a field per option, and the fields of `Handling`."""
    options = {name: form.getlist(name) if name in _LISTS else _value(name, form[name]) for name in form}
    handling = handling_of({name: options.pop(name) for name in Handling.model_fields if name in options})
    upload, archive = _only(files, "script"), _only(files, "archive")
    if archive is not None and upload is None:
        main = options.pop("main", None)
        parsed = parse_options(options, strict=True)
        named = None if main is None else str(main)
        return check_archive(archive.read(), named, parsed, settings, handling.priority), handling
    if upload is None or archive is not None:
        raise Problem(
            HTTPStatus.BAD_REQUEST, "no-script", "The request needs one file field, named 'script' or 'archive'."
        )
    parsed = parse_options(options, strict=True)
    return check(upload.read(), upload.filename, parsed, settings, handling.priority), handling


def handling_of(raw: Mapping[str, object]) -> Handling:
    """Check the handling of a job.

    Raises:
        InvalidOption: a value is out of range.
    """
    try:
        return Handling.model_validate(dict(raw))
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidOption(f"field {'.'.join(map(str, first['loc']))!r}: {first['msg']}") from None


def _only(files: MultiDict[str, FileStorage], field: str) -> FileStorage | None:
    sent = files.getlist(field)
    if len(sent) > 1:
        raise Problem(
            HTTPStatus.BAD_REQUEST,
            "several-scripts",
            f"The request has {len(sent)} files named '{field}', and a job has one. Send many scripts to /api/v1/batches, and a "
            "script with the files it needs as one zip file named 'archive'.",
        )
    return sent[0] if sent else None


def _value(name: str, text: str) -> object:
    """The value of a field of a multipart request: numbers, booleans and null in JSON's or Python's form."""
    if name in _NULLABLE and text in ("null", "None"):
        return None
    if name not in _LITERALS:
        return text
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)  # clients are generated that write those
    except (ValueError, RecursionError):
        return text  # and refused as such


def _check_toolchain(options: Options, settings: Settings) -> None:
    if options.toolchain is not None and options.toolchain not in toolchains(settings):
        known = ", ".join(toolchains(settings)) or "none is configured (MINIMIZER_TOOLCHAINS)"
        raise InvalidOption(f"option 'toolchain': there is no {options.toolchain!r}; known are: {known}")


def _python_of(options: Options, settings: Settings) -> Path | None:
    """The interpreter that is to run a job, which may be on the machines of the workers only; None for the one we run in."""
    return None if options.toolchain is None else settings.interpreters[options.toolchain]


def toolchains(settings: Settings) -> list[str]:
    """The names of the interpreters a job may ask for."""
    return list(settings.interpreters)


def clean_filename(name: str | None) -> str:
    """The last part of a file name without anything that could mislead a terminal, a header or a reader."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    # Category C holds control characters and the marks that turn the reading direction around.
    visible = "".join(char for char in last if not unicodedata.category(char).startswith("C")).strip().lstrip(".")
    if len(visible) > MAX_FILENAME:
        stem, dot, suffix = visible.rpartition(".")
        visible = (stem if dot else visible)[: MAX_FILENAME - 4] + (f".{suffix}" if dot and len(suffix) <= 3 else "")
    return visible or DEFAULT_FILENAME
