"""What the torch-free side asks of a forked child: a dataclass for the message of each task.

What a message holds beside them is the zygote's: id, folders, deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..wire import Message


class Request:
    """Reads itself from a message."""

    @classmethod
    def read(cls, message: Message) -> Self:
        """Take the fields that are there; the others have their defaults.

        Raises:
            TypeError: one without a default is missing.
        """
        return cls(**{name: message[name] for name in cls.__dataclass_fields__ if name in message})  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Switched(Request):
    """A request that may switch parts of the compiler off."""

    switches: Message | None = None
    """See `compiler.subsystems`; None: the compiler as it is."""
    threads: int = 1
    """Kernels that are built at once."""


@dataclass(frozen=True, kw_only=True)
class TrialRequest(Switched):
    """A program as text, its inputs, and how it is compiled and judged."""

    id: int = 0
    setup: str
    source: str
    """Defines ``name``."""
    name: str
    inputs: Sequence[Mapping[str, Any]]
    """``{name, code | golden, requires_grad}``, and ``marks``: the dimensions to be marked dynamic, if any."""
    golden_files: Sequence[str]
    """Paths for ``torch.load(weights_only=True)``."""
    compile_kwargs: str
    grad: bool
    tolerance: Mapping[str, Any] | None
    """None: the fp64 rule; else the script's own ``{rtol, atol, equal_nan}``."""
    backward: bool = True
    """Whether gradients are compared as well."""
    compilations: int = 1
    """For a failure that does not always show: compile anew so often, in this process."""
    failures: int = 1
    """Stop after so many compilations that did not end with ``same``."""
    seconds: float = float("inf")
    """Begin none when the first has been over for so long. Of a table of layers: begin no layer after that time."""


@dataclass(frozen=True)
class Region:
    """A layer of a table: ``source`` defines the function, the others are names of values."""

    function: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    returned: int
    """How many of its outputs are tensors."""
    judged: bool
    """Whether it is compiled, and compared."""


@dataclass(frozen=True, kw_only=True)
class LayersRequest(TrialRequest):
    """A graph as a whole, as in a trial, and its layers in execution order, which together are the whole graph."""

    regions: Sequence[Region]
    outputs: Sequence[str]
    """What the graph returns."""
    observed: str | None
    """The function that returns what the graph does, then the outputs of all regions."""
    skip: Sequence[str]
    """Functions that an earlier attempt died in."""

    @classmethod
    def read(cls, message: Message) -> Self:
        return super().read({**message, "regions": [Region(**region) for region in message["regions"]]})


@dataclass(frozen=True, kw_only=True)
class OperatorsRequest(TrialRequest):
    """A program, as in a trial, and operators of the user's own that it calls."""

    operators: Sequence[str]
    """Packet names, such as ``lib.scale``."""
    differentiates: bool
    """Whether gradients are in question, and so how the operators are registered."""


@dataclass(frozen=True, kw_only=True)
class ScriptRequest(Switched):
    """A script to be run once, without a hook."""

    text: str | None
    """What is run; None: the script's own text."""
    script: str
    """The file that the text believes to be its own."""
    args: list[str]
    compile: bool = True
    backend: str | None = None
    """One to use whatever the script asks for."""
    observe: bool = False
    """Report the aten operators that run inside compiled functions; with ``compile`` false."""


@dataclass(frozen=True, kw_only=True)
class ExactRequest(Request):
    """A script to be run once on eager's kernels, and looked at at its boundaries. Calls are numbered from 1."""

    text: str | None
    script: str
    args: list[str]
    eager: tuple[int, int | None] | None = None
    """The first and the last call that run without the compiler; the last may be None for all that follow."""
    full: Sequence[int] | None = None
    """Numbers of the calls and backwards around which everything is looked at; None: the 1st, 2nd, 4th, 8th …"""
    reset: int | None = None
    """The call before which Dynamo forgets all it has compiled."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Dynamo, by name."""
    regions: bool = True
    """Whether nested regions are compiled as such; else they are functions like any other."""
    moved: bool = False
    """Whether other objects lie in memory first."""
    delays: Sequence[float] = ()
    """Seconds that each call or backward has to last."""


@dataclass(frozen=True, kw_only=True)
class SurveyRequest(Switched):
    """A script to be run once, its graphs' calls compared."""

    script: str
    args: list[str]
    text: str | None = None
    """What to run in place of the script's own text."""
    nproc: int = 1
    """Ranks in all, this one included."""
    rank: int = 0
    """The one that is watched."""
    compile: bool
    stance: bool = False
    """Without the compiler: by the stance ``force_eager``, not by the variable."""
    steps: int | None
    """Most calls of each key that are compared."""
    calls: Mapping[str, Any] | None = None
    """Which calls are compared, by graph (see `watch.coverage`); None: as the plan of the run itself has it."""
    hold: Message | None
    """Graph and call of an earlier run at which to stop before the compiler gets there: how a crash is held."""
    passed_by: Sequence[int] = ()
    """Graphs of which no call is compared."""
    caches: bool = False
    """Whether graphs are read from the compiler's caches on disk, and left there."""
    tolerance: dict[str, float] | None
    """The script's own, which then decides."""
    layout: bool = False
    """Whether a difference in nothing but strides ends the script too."""
    each: bool = False
    """Whether the script goes on behind a call that differs, and all of them are counted by module instance."""
    values: bool = True
    """Whether calls are compared; else only exceptions and crashes count."""
    measure: bool = False
    """Time both sides of every graph."""
    trace: str | None = None
    """A folder for what ``TORCH_TRACE`` writes."""


@dataclass(frozen=True, kw_only=True)
class SettingsRequest(Request):
    """Expressions to be evaluated after a setup."""

    setup: str
    expressions: Sequence[str]
