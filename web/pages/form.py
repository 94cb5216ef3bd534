"""The submit form: its fields, what they mean, and how what was typed becomes a submission."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from werkzeug.datastructures import FileStorage, MultiDict

from minimizer.errors import InvalidOption, InvalidScript
from minimizer.options import Options
from minimizer.settings import Settings
from minimizer.store import Job
from web.examples import EXAMPLES
from web.submission import Submission, check, clean_filename, is_zip, toolchains

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
        Field("expect", "Expected failure", "select", choices=_choices("auto", "accuracy", "crash", "hang")),
        Field("device", "Device", "select", choices=_choices("auto", "cpu", "cuda")),
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
        Field("hang_after", "Hang after", "number", "Seconds. Left empty: 60, or 20 times what eager takes."),
        Field("nproc", "Processes", "number", "More than one: as torchrun starts them."),
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
    """What stands in the form: nothing a person typed is lost when it cannot be accepted."""

    source: str = ""
    filename: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    rival: str = ""
    """The name of a file that was sent beside a text that somebody has typed."""
    error: str = ""

    def value(self, option: Field) -> str:
        return self.values.get(option.name, option.default)

    def is_changed(self, options: Sequence[Field]) -> bool:
        """Whether an option is other than its default, and should be seen."""
        return any(
            self.value(o) != ("on" if o.widget == "checkbox" else o.default) for o in options if o.name in self.values
        )


def read(form: MultiDict[str, str], files: MultiDict[str, FileStorage], settings: Settings) -> tuple[bytes, Draft]:
    """The script of a posted form, and the draft to show again should it be refused."""
    upload = files.get("script")
    content = upload.read() if upload is not None and upload.filename else b""
    # Browsers send line breaks of a text area as CRLF.
    typed = form.get("source", "").replace("\r\n", "\n").encode(errors="replace")
    name = (upload.filename if content and upload is not None else None) or ""
    rival = name if content and _is_own(typed) and typed.strip() != content.strip() else ""
    script = content or typed
    # A browser sends a file no second time, so what is typed is what has to stay.
    shown = typed if rival else b"" if is_zip(script) else script
    filename = form.get("filename", "") if rival else name or form.get("filename", "")
    values = {option.name: form.get(option.name, "") for option in fields(settings)}
    return script, Draft(shown.decode(errors="replace"), filename, values, form.get("project", ""), rival)


def again(job: Job, script: bytes) -> Draft:
    """The form as it would have been filled in for a job."""
    values = {name: "" if value is None else str(value) for name, value in job.options.model_dump().items()}
    values |= {"args": shlex.join(job.options.args), "env": ", ".join(job.options.env)}
    values |= {name: "on" if getattr(job.options, name) else "" for name in SWITCHES}
    return Draft(script.decode(errors="replace"), job.filename, values, job.project)


def submission(script: bytes, draft: Draft, settings: Settings) -> Submission:
    """Check a posted form.

    Raises:
        InvalidScript, InvalidOption, Problem: as `web.submission.check` does.
    """
    if not script.strip():
        raise InvalidScript("There is no script yet: drop a file, paste its text, or pick an example.")
    if draft.rival and not is_zip(script):
        raise InvalidScript(
            f"There are two scripts: the file {clean_filename(draft.rival)} and the text below. Send the text alone, or take it "
            "away and choose the file again."
        )
    return check(script, draft.rival or draft.filename, _options(draft.values), settings)


def _is_own(typed: bytes) -> bool:
    """Whether a text is more than an example that nobody has touched."""
    text = typed.decode(errors="replace").strip()
    return bool(text) and all(text != one.source.strip() for one in EXAMPLES)


def _options(values: Mapping[str, str]) -> dict[str, object]:
    options: dict[str, object] = {name: value.strip() for name, value in values.items() if value.strip()}
    for switch in SWITCHES:  # one that is off sends nothing
        options[switch] = values.get(switch) == "on"
    try:
        options["args"] = shlex.split(values.get("args", ""))
    except ValueError as error:
        raise InvalidOption(f"option 'args': {error}") from None
    options["env"] = [name for name in values.get("env", "").replace(",", " ").split() if name]
    return options


def _choices(*values: str) -> tuple[tuple[str, str], ...]:
    return tuple((value, _CHOICES.get(value, value)) for value in values)


_CHOICES = {
    "auto": "automatic",
    "accuracy": "wrong values",
    "crash": "crash or error",
    "hang": "hang",
    "cpu": "CPU",
    "cuda": "CUDA GPU",
}
