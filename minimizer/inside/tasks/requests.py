"""Requests to a forked child: a dataclass for the message of each task.

The message's other fields (id, folders, deadline) are for the zygote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ..wire import Message


class Request:
    """Base of all requests; can be read from a message."""

    @classmethod
    def read(cls, message: Message) -> Self:
        """Take the request's fields from a message; missing ones get their defaults.

        Raises:
            TypeError: a field without a default is missing.
        """
        return cls(**{name: message[name] for name in cls.__dataclass_fields__ if name in message})  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Switched(Request):
    """A request that can switch off parts of the compiler."""

    switches: Message | None = None
    """See `compiler.subsystems`; None: the compiler unchanged."""
    threads: int = 1
    """Number of kernels that are built in parallel."""


@dataclass(frozen=True, kw_only=True)
class TrialRequest(Switched):
    """A trial: a program as text, its inputs, and how it is compiled and judged."""

    id: int = 0
    setup: str
    source: str
    """Source text that defines the function ``name``."""
    name: str
    inputs: Sequence[Mapping[str, Any]]
    """One mapping for each input: ``{name, code | golden, requires_grad}``, and ``marks``, the dimensions to mark dynamic, if any."""
    golden_files: Sequence[str]
    """Files with golden values, for ``torch.load(weights_only=True)``."""
    compile_kwargs: str
    around: Sequence[str] = ()
    """Expressions for the contexts in which the function is called; its backward runs outside of them."""
    grad: bool
    tolerance: Mapping[str, Any] | None
    """None: the fp64 rule; else the script's own ``{rtol, atol, equal_nan}``."""
    backward: bool = True
    """Whether gradients are compared too."""
    compilations: int = 1
    """Number of compilations in this process; more than one for a flaky failure."""
    failures: int = 1
    """Stop after this many compilations that did not end as ``same``."""
    seconds: float = float("inf")
    """Begin no compilation once this time has passed since the first one ended; in a table of layers, begin no layer after this time."""


@dataclass(frozen=True)
class Region:
    """A layer of a table, by the name of its function and the names of its input and output values."""

    function: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    returned: int
    """Number of its outputs that are tensors."""
    judged: bool
    """Whether it is compiled and compared; if not, it only runs in eager."""


@dataclass(frozen=True, kw_only=True)
class LayersRequest(TrialRequest):
    """A table of layers: a graph as in a trial, and its layers in execution order, which together make up the graph."""

    regions: Sequence[Region]
    outputs: Sequence[str]
    """Names of the values that the graph returns."""
    observed: str | None
    """The function that returns the graph's outputs followed by the outputs of all regions; None if there is none."""
    skip: Sequence[str]
    """Functions in which an earlier attempt died; they are not compiled again."""

    @classmethod
    def read(cls, message: Message) -> Self:
        return super().read({**message, "regions": [Region(**region) for region in message["regions"]]})


@dataclass(frozen=True, kw_only=True)
class OperatorsRequest(TrialRequest):
    """An operator check: a program as in a trial, and the user's custom operators that it calls."""

    operators: Sequence[str]
    """Packet names, such as ``lib.scale``."""
    differentiates: bool
    """Whether the failure involves gradients; then the operators' autograd registration is checked too."""


@dataclass(frozen=True, kw_only=True)
class ScriptRequest(Switched):
    """One run of a script without our hooks."""

    text: str | None
    """Text to run in place of the script's own; None: the script's own."""
    script: str
    """The script's path, which the text sees as its ``__file__``."""
    args: list[str]
    compile: bool = True
    backend: str | None = None
    """A backend that replaces the one the script asks for; None: the script's."""
    observe: bool = False
    """Report the aten operators that run inside compiled functions; with ``compile`` false."""
    state: int = 0
    """The number of the random state that the script starts from (see `RandomStart`)."""
    caches: bool = False
    """Whether the compiler's caches of graphs are left to the script, and begin empty; else they are off."""


@dataclass(frozen=True, kw_only=True)
class ExactRequest(Request):
    """An exact run of a script; see `exact_run`. Calls are numbered from 1."""

    text: str | None
    script: str
    args: list[str]
    eager: tuple[int, int | None] | None = None
    """The first and the last call that run without the compiler; None as last: all that follow. None: no call does."""
    full: Sequence[int] | None = None
    """Numbers of the calls and backwards with a full look before and after; None: the 1st, 2nd, 4th, 8th …"""
    reset: int | None = None
    """The call before which ``torch._dynamo.reset()`` is called; None: no call."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``torch._dynamo.config``, by name."""
    regions: bool = True
    """Whether ``nested_compile_region`` has its effect; if not, it is ignored."""
    moved: bool = False
    """Whether to move the machine under the script: other addresses, memory, garbage, and objects that live longer (see `Moved`)."""
    delays: Sequence[float] = ()
    """Seconds to wait before each call, where the machine is moved."""
    resident: int = 0
    """Bytes to have in use beside what the script needs, where the machine is moved."""
    replay: str | None = None
    """What the script read of the machine in an earlier run, to be read again (see `Machine`); None: it is recorded."""
    shown: Sequence[int] = ()
    """Calls that run without the compiler, beside those of ``eager``."""
    redrawn: Mapping[str, Any] | None = None
    """``seed`` and ``units``: in these calls and backwards every rounding of the graphs is redrawn; None: none is."""
    whole: int | None = None
    """The call or backward, by its number among both, at whose looks the elements of tensors are kept; 0: at the end; None: none."""
    written: bool = False
    """Whether to find out what functions that the script gives to the compiler write while it runs them."""
    library: bool = False
    """Whether eager calls choose like compiled ones: torch's own modules and optimizers, too, are told that they are compiled, and
    what Dynamo decomposes is decomposed."""
    modules: Sequence[str] = ()
    """Names of modules of packages whose globals and classes are looked at like the script's own."""
    own_backend: bool = False
    """Whether calls are compiled for the backend that the script names, in the place of ``eager``."""
    bare: bool = False
    """Whether the compiler is not there at all, nor are its wrappers."""
    through: Sequence[str] | None = None
    """Looks at wrappers that see what there is without them (see `Glances`); None: such looks are not watched."""
    state: int = 0
    """The number of the random state that the script starts from (see `RandomStart`)."""


@dataclass(frozen=True, kw_only=True)
class SurveyRequest(Switched):
    """A survey run of a script, in which the calls of its graphs are compared."""

    script: str
    args: list[str]
    text: str | None = None
    """Text to run in place of the script's own; None: the script's own."""
    nproc: int = 1
    """Number of ranks, this one included."""
    rank: int = 0
    """The rank of this process, the one that is watched."""
    compile: bool
    stance: bool = False
    """For a run without the compiler: disable it by the stance ``force_eager``, not by ``TORCHDYNAMO_DISABLE``."""
    steps: int | None
    """Number of first calls of each key that are compared; None: as planned."""
    calls: Mapping[str, Any] | None = None
    """Numbers of the calls to compare, by graph (see `watch.coverage`); None: the default plan of a first run."""
    hold: Message | None
    """Graph and call from an earlier run at which to hold before compiled code gets there (for a crash); see `Holder`."""
    passed_by: Sequence[int] = ()
    """Numbers of graphs whose calls are not compared."""
    caches: bool | str = False
    """Whether the compiler's on-disk graph caches are read and written; ``inductor``: only those of Inductor."""
    tolerance: dict[str, float] | None
    """The script's own tolerance, which then decides; None: the referee's rules."""
    layout: bool = False
    """Whether a difference only in strides is held too."""
    each: bool = False
    """Whether the script continues after failing calls, which are counted by module instance instead of held."""
    values: bool = True
    """Whether values are compared; if not, only exceptions and crashes count."""
    measure: bool = False
    """Whether both sides of every graph are timed."""
    trace: str | None = None
    """Folder for ``TORCH_TRACE`` output; None: no trace."""


@dataclass(frozen=True, kw_only=True)
class SettingsRequest(Request):
    """Expressions to evaluate after running a setup."""

    setup: str
    expressions: Sequence[str]
