"""A job as it comes in, from a form, a multipart upload or JSON: checked once, in one place."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from werkzeug.datastructures import FileStorage, MultiDict

from minimizer.errors import InvalidOption
from minimizer.options import Options, check_script, parse_options
from minimizer.settings import Settings
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


def check(script: bytes, filename: str | None, options: Mapping[str, object], settings: Settings) -> Submission:
    """Accept a job, or say what is wrong with it.

    Raises:
        InvalidScript: empty, not text, not Python.
        InvalidOption: unknown, or out of range.
        Problem: too large (413).
    """
    name = clean_filename(filename)
    if len(script) > settings.max_script_bytes:
        raise Problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "script-too-large",
            f"{name} has {len(script):,} bytes; at most {settings.max_script_bytes:,} are accepted. "
            "Cut data out of the script, or raise MINIMIZER_MAX_SCRIPT_BYTES.",
        )
    check_script(script, name, settings.max_script_bytes)
    parsed = parse_options(dict(options))
    if parsed.toolchain is not None and parsed.toolchain not in toolchains(settings):
        known = ", ".join(toolchains(settings)) or "none is configured (MINIMIZER_TOOLCHAINS)"
        raise InvalidOption(f"option 'toolchain': there is no {parsed.toolchain!r}; known are: {known}")
    return Submission(script, name, parsed)


def from_upload(form: MultiDict[str, str], files: MultiDict[str, FileStorage], settings: Settings) -> Submission:
    """Read a multipart request: the file ``script``, and a field per option."""
    upload = files.get("script")
    if upload is None:
        raise Problem(HTTPStatus.BAD_REQUEST, "no-script", "The request has no file field named 'script'.")
    options: dict[str, object] = {name: form.getlist(name) if name in _LISTS else form[name] for name in form}
    return check(upload.read(), upload.filename, options, settings)


def toolchains(settings: Settings) -> list[str]:
    """The names of the interpreters a job may ask for."""
    return [
        name.strip() for name, path in (part.partition("=")[::2] for part in settings.toolchains.split(",")) if path
    ]


def clean_filename(name: str | None) -> str:
    """The last part of a file name without anything that could mislead a terminal, a header or a reader."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    # Category C holds control characters and the marks that turn the reading direction around.
    visible = "".join(char for char in last if not unicodedata.category(char).startswith("C")).strip().lstrip(".")
    if len(visible) > MAX_FILENAME:
        stem, dot, suffix = visible.rpartition(".")
        visible = (stem if dot else visible)[: MAX_FILENAME - 4] + (f".{suffix}" if dot and len(suffix) <= 3 else "")
    return visible or DEFAULT_FILENAME
