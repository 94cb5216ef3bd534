"""The options of a job, one model for the command line, REST and the web form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from minimizer.errors import InvalidOption
from minimizer.vocabulary import Kind

MAX_BUDGET = 86_400
"""Seconds."""

_ALWAYS_STORED = {
    *("budget", "device", "expect", "target", "steps", "hang_after"),
    *("args", "env", "toolchain", "diagnosis", "witness", "nproc"),
}
"""Options that every version in use knows; one that is added joins them a release later."""

EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Options(BaseModel):
    """What a user may ask of a job. Unknown names are refused, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    budget: int = Field(
        900, ge=10, le=MAX_BUDGET, description="Seconds the job may take before the best result so far is returned."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device the script needs; auto takes what the script asks for."
    )
    expect: Literal[
        "auto", "crash", "accuracy", "hang", "recompiles", "graph-break", "compile-time", "memory", "slow"
    ] = Field(
        "auto",
        description="The failure to look for; values are compared with auto and accuracy only. With recompiles, graph-break, compile-time, memory or slow the costliest finding of that sort is reduced as if it were a failure.",
    )
    target: str | None = Field(
        None, max_length=200, description="Which of several failures to reduce: its index, module path or signature."
    )
    steps: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Compare this many calls of each compiled graph with the same module and sizes; as many as there is time for if it is left out.",
    )
    hang_after: int | None = Field(
        None,
        ge=1,
        le=86_400,
        description="Seconds without progress after which a graph that is compiled, or runs compiled, is suspected to hang.",
    )
    args: list[Annotated[str, Field(max_length=4096, json_schema_extra={"pattern": "^[^\\x00]*$"})]] = Field(
        default_factory=list, max_length=100, description="Command line arguments of the script."
    )
    env: list[EnvName] = Field(
        default_factory=list, max_length=50, description="Names of environment variables the script may see."
    )
    toolchain: str | None = Field(
        None, max_length=200, description="Name of the configured Python interpreter that runs the script."
    )
    diagnosis: bool = Field(
        True,
        description="After the repro also look for the part of the compiler to blame and a workaround, and measure every layer; off: about half the time.",
    )
    witness: bool = Field(
        True,
        description="Also rerun the script under PyTorch's own minifier, report what it finds, and take up a graph that only it has found.",
    )
    nproc: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes of the script, started as torchrun would. A run watches one rank, and the runs of a healthy script take turns.",
    )

    ready: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00\n]*$")] | None = Field(
        None,
        description="For a script that serves until it is ended: the TCP port at which it listens, or text that it prints, once it is ready. It is ended when the command of drive has, or at once without one.",
    )
    drive: Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")] | None = Field(
        None,
        description="Shell command that is run in the script's sandbox and folder when the script is ready, such as one that sends it requests; that it ends well is a check of the script.",
    )

    @property
    def expected_finding(self) -> Kind | None:
        """The kind of finding to reduce as if it were a failure; None for a search for failures."""
        kinds = {str(kind).replace("_", "-"): kind for kind in Kind if kind.is_finding}
        return kinds.get(self.expect)

    @property
    def compares_values(self) -> bool:
        """Whether wrong values are among the failures to look for."""
        return self.expect in ("auto", "accuracy")

    @property
    def undrivable(self) -> str:
        """Why the script cannot be driven as requested, in words; empty if it can, or need not be."""
        if self.drive is not None and self.ready is None:
            return "drive needs ready as well: the port at which the script listens, or what it prints, once it can be driven"
        if self.ready is not None and self.nproc > 1:
            return "ready is for a script of one process: leave nproc out"
        return ""

    @property
    def stands_alone(self) -> bool:
        """Whether the script runs as one standalone process, as a repro does: smaller texts of it can be tried."""
        return self.nproc == 1 and self.ready is None

    @property
    def needs(self) -> tuple[str | None, str | None]:
        """The device and the toolchain that a worker must have to take the job; None if any will do."""
        return ("cuda" if self.device == "cuda" else None), self.toolchain

    def to_store(self) -> dict[str, Any]:
        """The options to store with a job.

        A later change of a default must not change an existing job, so defaults are stored too. But the default of a
        new option is left out: workers of the previous version can then do all jobs that do not set it.
        """
        given, defaults = self.model_dump(mode="json"), type(self)().model_dump(mode="json")
        return {name: value for name, value in given.items() if name in _ALWAYS_STORED or value != defaults[name]}

    @classmethod
    def from_store(cls, stored: Mapping[str, Any]) -> Self:
        """A job's options for display, stored by any version: options unknown to this one keep its defaults."""
        try:
            return cls.model_validate(stored, extra="ignore")
        except ValidationError as error:
            strange = {fault["loc"][0] for fault in error.errors()}
            return cls.model_validate({name: stored[name] for name in stored.keys() - strange}, extra="ignore")

    @classmethod
    def understands(cls, stored: Mapping[str, Any]) -> bool:
        """Whether this version supports a job's stored options."""
        try:
            cls.model_validate(stored)
        except ValidationError:
            return False
        return True


def parse_options(raw: dict[str, object], *, strict: bool = False) -> Options:
    """Validate options from outside.

    Args:
        raw: by their names.
        strict: accept only numbers as numbers and only booleans as booleans, as in JSON; a form has texts.

    Raises:
        InvalidOption: names every option at fault and what it accepts.
    """
    try:
        options = Options.model_validate(raw, strict=strict)
    except ValidationError as error:
        faults = error.errors()
        raise InvalidOption("; ".join(map(_explain, faults)), *(str(fault["loc"][0]) for fault in faults)) from None
    # Not a rule of the model: jobs that are stored must stay readable.
    if any("\0" in arg for arg in options.args):
        raise InvalidOption("option 'args': no program can be given an argument with a NUL character in it", "args")
    return options


def _explain(fault: ErrorDetails) -> str:
    name, limits = ".".join(map(str, fault["loc"])), fault.get("ctx", {})
    given = f"{fault['input']!r}"[:60]
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown option {name!r}; known are {', '.join(Options.model_fields)}"
        case "int_parsing" | "int_from_float":
            said = f"{given} is no whole number"
        case "greater_than_equal":
            said = f"{given} is too small: at least {limits['ge']:,}"
        case "less_than_equal":
            said = f"{given} is too large: at most {limits['le']:,}"
        case _:
            said = fault["msg"]
    return f"option {name!r}: {said}"
