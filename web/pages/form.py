"""The submit form: its fields, their meaning, and the conversion of input to a submission."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from werkzeug.datastructures import FileStorage, MultiDict

from minimizer.errors import InvalidOption, InvalidScript
from minimizer.options import Options, parse_options
from minimizer.service.archive import is_zip
from minimizer.settings import Settings
from web.examples import EXAMPLES
from web.submission import Submission, check, check_archive, clean_filename, toolchains

SWITCHES = ("diagnosis", "witness")
"""Options that are checkboxes."""


@dataclass(frozen=True)
class Field:
    """One option as a form field."""

    name: str
    label: str
    widget: Literal["number", "text", "select", "checkbox"]
    more: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    placeholder: str = ""

    @property
    def help(self) -> str:
        return f"{Options.model_fields[self.name].description} {self.more}".strip()

    @property
    def default(self) -> str:
        default = Options.model_fields[self.name].get_default(call_default_factory=True)
        return "" if default is None or default == [] else str(default)


def fields(settings: Settings) -> list[Field]:
    """All options, the ones that are needed most first."""
    names = toolchains(settings)
    shown = [
        Field("budget", "Time budget", "number", "Between 10 and 86400."),
        Field("expect", "Expected failure", "select", choices=_choices("expect")),
        Field("device", "Device", "select", choices=_choices("device")),
        Field("args", "Arguments", "text", "Quoted as in a shell.", placeholder="--size 8"),
        Field(
            "env",
            "Environment",
            "text",
            "Separated by commas; nothing else is passed on.",
            placeholder="HF_HOME, MY_FLAG",
        ),
        Field("target", "Target", "text", "Left empty: the first in the order of execution.", placeholder="blocks.7"),
        Field("steps", "Compiled calls", "number", "Left empty: eight of every graph."),
        Field("hang_after", "Hang after", "number", "Left empty: 60, or 20 times what eager takes."),
        Field("nproc", "Processes", "number", "More than one: as torchrun starts them."),
        Field("ready", "Ready when", "text", "Of a server: its port, or text that it prints.", placeholder="8000"),
        Field(
            "drive",
            "Drive by",
            "text",
            "A command that sends it requests, then it is ended.",
            placeholder="python client.py",
        ),
        Field("diagnosis", "Diagnosis", "checkbox"),
        Field("witness", "PyTorch's minifier", "checkbox"),
    ]
    if names:
        shown.insert(
            3, Field("toolchain", "Python", "select", choices=(("", "the default"), *((name, name) for name in names)))
        )
    return shown


@dataclass(frozen=True)
class Draft:
    """The form's content: no input is lost when it cannot be accepted."""

    source: str = ""
    filename: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    rival: str = ""
    """The name of an uploaded file that competes with a typed text."""
    main: str = ""
    """Of an archive: which of its files is the script; empty for the default."""
    base: str = ""
    """The job whose other files go with the script."""
    beside: tuple[str, ...] = ()
    """Their names."""
    error: str = ""
    faults: tuple[str, ...] = ()
    """The options that the error speaks of."""
    is_of_file: bool = False
    """Whether the error is shown next to the file chooser, and not at the top."""

    def value(self, option: Field) -> str:
        return self.values.get(option.name, option.default)

    def is_changed(self, options: Sequence[Field]) -> bool:
        """Whether an option is other than its default, and should be seen."""
        return any(
            self.value(o) != ("on" if o.widget == "checkbox" else o.default) for o in options if o.name in self.values
        )


def read(form: MultiDict[str, str], files: MultiDict[str, FileStorage], settings: Settings) -> tuple[bytes, Draft]:
    """The script or zip archive of a posted form, and the draft to show again should it be refused."""
    upload = files.get("script")
    content = upload.read() if upload is not None and upload.filename else b""
    # Browsers send line breaks of a text area as CRLF.
    typed = form.get("source", "").replace("\r\n", "\n").encode(errors="replace")
    name = (upload.filename if content and upload is not None else None) or ""
    rival = name if content and _is_own(typed) and typed.strip() != content.strip() else ""
    script = content or typed
    # A browser does not upload a file again, so the typed text has to stay.
    shown = typed if rival else b"" if is_zip(script) else script
    is_kept = rival or is_zip(script)  # the name of a script, which an archive's is not
    filename = form.get("filename", "") if is_kept else name or form.get("filename", "")
    values = {option.name: form.get(option.name, "") for option in fields(settings)}
    draft = Draft(
        shown.decode(errors="replace"),
        filename,
        values,
        form.get("project", ""),
        rival,
        form.get("main", "").strip(),
        form.get("base", ""),
    )
    return script, draft


def submission(script: bytes, draft: Draft, settings: Settings) -> Submission:
    """Check a posted form.

    Raises:
        InvalidScript, InvalidOption, Problem: as `web.submission.check` and `check_archive` do.
    """
    if not script.strip():
        raise InvalidScript("There is no script yet: drop a file, paste its text, or pick an example.")
    if draft.rival:
        raise InvalidScript(
            f"There are two scripts: the file {clean_filename(draft.rival)} and the text below. Send the text alone, or take it "
            "away and choose the file again."
        )
    if is_zip(script):
        return check_archive(script, draft.main or None, _options(draft.values), settings)
    return check(script, draft.filename, _options(draft.values), settings)


def refused(draft: Draft, detail: str, faults: Sequence[str], settings: Settings) -> Draft:
    """The draft to show again, with its errors; options have their fields' names."""
    labels = {option.name: option.label for option in fields(settings)}
    for name in faults:
        if name in labels:
            detail = re.sub(rf"option '{re.escape(name)}(?:\.\d+)?'", labels[name], detail)
    return replace(draft, error=detail, faults=tuple(name for name in faults if name in labels))


def _is_own(typed: bytes) -> bool:
    """Whether a text differs from the untouched example."""
    text = typed.decode(errors="replace").strip()
    return bool(text) and all(text != one.source.strip() for one in EXAMPLES)


def _options(values: Mapping[str, str]) -> Options:
    options: dict[str, object] = {name: value.strip() for name, value in values.items() if value.strip()}
    for switch in SWITCHES:  # one that is off sends nothing
        options[switch] = values.get(switch) == "on"
    try:
        options["args"] = shlex.split(values.get("args", ""))
    except ValueError as error:
        raise InvalidOption(f"option 'args': {error}", "args") from None
    options["env"] = [name for name in values.get("env", "").replace(",", " ").split() if name]
    return parse_options(options)


def _choices(name: str) -> tuple[tuple[str, str], ...]:
    """The values that an option may have, with words for them."""
    return tuple((value, _CHOICES.get(value, value)) for value in get_args(Options.model_fields[name].annotation))


_CHOICES = {
    "auto": "automatic",
    "accuracy": "wrong values",
    "crash": "crash or error",
    "hang": "hang",
    "recompiles": "no failure: recompiles",
    "graph-break": "no failure: a graph break",
    "compile-time": "no failure: compile time",
    "memory": "no failure: memory for the backward",
    "slow": "no failure: slower than eager",
    "cpu": "CPU",
    "cuda": "CUDA GPU",
}
