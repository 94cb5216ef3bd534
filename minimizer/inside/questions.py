"""What a forked child is asked: a dataclass for each task, and for each question to a held run of a script.

The one module that both sides load: the engine makes these and sends their fields, the child reads them again. It needs the standard
library only, since the child runs in the user's Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

Message = dict[str, Any]
R = TypeVar("R", bound="Request")
STACKS_EVERY = 4
"""Seconds between two dumps of the stacks of a rank that is not watched."""
RANK_ENDED = "Ended"
"""Word that begins the line in which such a rank says how it ended."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Base of all requests.

    For the zygote: ``environ``, variables that are set before the task; ``nice``, by how much its priority is lower; ``memory``, the bytes
    that it may take (None: those of every task).
    """

    task: ClassVar[str]
    """The task that answers it."""
    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """How fields are read that are dataclasses of their own, by name."""
    environ: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    memory: int | None = None

    @classmethod
    def read(cls: type[R], message: Message) -> R:
        """Take the request's fields from a message; missing ones get their defaults.

        Raises:
            TypeError: a field without a default is missing.
        """
        given = {name: message[name] for name in cls.__dataclass_fields__ if name in message}
        made = {name: read(given[name]) for name, read in cls.parts.items() if given.get(name)}
        return cls(**{**given, **made})

    def message(self) -> Message:
        """The fields, as they are sent."""
        return asdict(self)


@dataclass(frozen=True)
class Switches:
    """Parts of the compiler to switch (see `compiler.subsystems`): those in ``off`` are off, of a kind in ``only`` just the named ones are
    on, and all others are on."""

    off: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Switched(Request):
    """A request that can switch off parts of the compiler."""

    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"switches": lambda value: Switches(**value)}
    switches: Switches | None = None
    """None: the compiler unchanged, and no part is reported."""
    threads: int | None = None
    """Number of kernels that are built in parallel; None: as many as there are cores where it runs alone, else 1."""


@dataclass(frozen=True, kw_only=True)
class GivenInput:
    """An input of a trial: a golden value by its key, or source text that makes it."""

    name: str
    golden: str | None = None
    code: str | None = None
    is_view: bool = False
    """Whether the text makes it from another input, by that input's name."""
    requires_grad: bool = False
    marks: Sequence[int] = ()
    """Dimensions to mark dynamic."""
    frozen: bool = False
    """Whether compiled code reads it from a module, as a constant."""


@dataclass(frozen=True, kw_only=True)
class TrialRequest(Switched):
    """A trial: a program as text, its inputs, and how it is compiled and judged."""

    task: ClassVar[str] = "judge"
    parts = {**Switched.parts, "inputs": lambda values: [GivenInput(**value) for value in values]}
    id: int = 0
    setup: str
    source: str
    """Source text that defines the function ``name``."""
    name: str
    inputs: Sequence[GivenInput]
    golden_files: Sequence[str] = ()
    """Files with golden values, for ``torch.load(weights_only=True)``."""
    compile_kwargs: str = ""
    around: Sequence[str] = ()
    """Expressions for the contexts in which the function is called; its backward runs outside of them."""
    grad: bool = False
    tolerance: Mapping[str, Any] | None = None
    """None: the fp64 rule; else the script's own ``{rtol, atol, equal_nan}``."""
    identity: bool = False
    """Whether outputs that are one object where eager's are two are a difference."""
    backward: bool = True
    """Whether gradients are compared too."""
    compilations: int = 1
    """Number of compilations in this process; more than one for a flaky failure."""
    failures: int = 1
    """Stop after this many compilations that did not end as ``same``."""
    seconds: float = float("inf")
    """Begin no compilation once this time has passed since the first one ended; in a table of layers, begin no layer after this time."""


@dataclass(frozen=True, kw_only=True)
class ObserveRequest(TrialRequest):
    """A program as in a trial, run in eager only, to see its operators and what it raises."""

    task: ClassVar[str] = "observe"


@dataclass(frozen=True, kw_only=True)
class CostRequest(TrialRequest):
    """A program as in a trial, to be measured on both sides and not compared."""

    task: ClassVar[str] = "measure_cost"
    of: str
    """What is measured: ``slow`` (seconds of a call), ``memory`` (bytes that autograd saves in one), or ``compile_time`` (seconds of the first
    compiled call, against those of a single operator)."""


@dataclass(frozen=True)
class TableLayer:
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

    task: ClassVar[str] = "layers"
    parts = {**TrialRequest.parts, "regions": lambda values: [TableLayer(**value) for value in values]}
    regions: Sequence[TableLayer]
    outputs: Sequence[str]
    """Names of the values that the graph returns."""
    observed: str | None
    """The function that returns the graph's outputs followed by the outputs of all regions; None if there is none."""
    skip: Sequence[str]
    """Functions in which an earlier attempt died; they are not compiled again."""


@dataclass(frozen=True, kw_only=True)
class OperatorsRequest(TrialRequest):
    """An operator check: a program as in a trial, and the user's custom operators that it calls."""

    task: ClassVar[str] = "check_operators"
    operators: Sequence[str]
    """Packet names, such as ``lib.scale``."""
    differentiates: bool
    """Whether the failure involves gradients; then the operators' autograd registration is checked too."""


@dataclass(frozen=True, kw_only=True)
class ScriptRequest(Switched):
    """One run of a script without our hooks."""

    task: ClassVar[str] = "rerun"
    text: str | None
    """Text to run in place of the script's own; None: the script's own."""
    script: str
    """The script's path, which the text sees as its ``__file__``."""
    args: Sequence[str] = ()
    compile: bool = True
    backend: str | None = None
    """A backend that replaces the one the script asks for; None: the script's."""
    observe: bool = False
    """Report the aten operators that run inside compiled functions; with ``compile`` false."""
    measure: bool = False
    """Report graph breaks and recompiles with the script's lines; with ``compile``."""
    count_saved: bool = False
    """Report the bytes that autograd saves for backwards."""
    recompile_limit: int | None = None
    """Compilations of one function until the rest of its calls run in eager, unless the script sets that; None: Dynamo's default."""
    state: int = 0
    """The number of the random state that the script starts from (see `RandomStart`)."""
    caches: bool = False
    """Whether the compiler's caches of graphs are left to the script, and begin empty; else they are off."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What an exact run does that others of a comparison do otherwise. Calls are numbered from 1."""

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
    shown: Sequence[int] = ()
    """Calls that run without the compiler, beside those of ``eager``."""
    redrawn: Mapping[str, Any] | None = None
    """``seed`` and ``units``: in these calls and backwards every rounding of the graphs is redrawn; None: none is."""
    whole: int | None = None
    """The call or backward, by its number among both, at whose looks the elements of tensors are kept; 0: at the end; None: none."""
    written: bool = False
    """Whether to find out what functions that the script gives to the compiler write while it runs them."""
    own_backend: bool = False
    """Whether calls are compiled for the backend that the script names, in the place of ``eager``."""
    bare: bool = False
    """Whether the compiler is not there at all, nor are its wrappers."""
    through: Sequence[str] | None = None
    """Looks at wrappers that see what there is without them (see `Glances`); None: such looks are not watched."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What all exact runs of a comparison share."""

    replay: str | None = None
    """What the script read of the machine in an earlier run, to be read again (see `Machine`); None: it is recorded."""
    library: bool = False
    """Whether eager calls choose like compiled ones: torch's own modules and optimizers, too, are told that they are compiled, and
    what Dynamo decomposes is decomposed."""
    modules: Sequence[str] = ()
    """Names of modules of packages whose globals and classes are looked at like the script's own."""
    in_order: bool = False
    """Whether no logging function is moved behind its graph, whatever the script allows."""
    aot: bool = False
    """Whether AOTAutograd traces what Dynamo has captured, as for the backend ``aot_eager``, where the script's backend does that."""
    state: int = 0
    """The number of the random state that the script starts from (see `RandomStart`)."""


@dataclass(frozen=True, kw_only=True)
class ExactRequest(Plan, Conditions, Request):
    """An exact run of a script; see `exact_run`."""

    task: ClassVar[str] = "exact_run"
    text: str | None
    script: str
    args: Sequence[str] = ()


@dataclass(frozen=True)
class HoldPlace:
    """A call of a graph; ``call`` is None before the graph is compiled, and ``phase`` ``backward`` for the call's gradients."""

    graph: int
    call: int | None
    phase: str = "run"


@dataclass(frozen=True, kw_only=True)
class OfScript(Request):
    """A request that runs a script."""

    script: str
    args: Sequence[str] = ()
    text: str | None = None
    """Text to run in place of the script's own; None: the script's own."""


@dataclass(frozen=True, kw_only=True)
class TraceRequest(OfScript):
    """A run of a script that notes the calls of torch around its compiled graphs; see `tasks.trace`."""

    task: ClassVar[str] = "trace"
    file: str
    """Where to write the values of inputs that have no short source text."""
    state: int = 0
    """The number of the random state that the script starts from (see `RandomStart`)."""
    events: int
    """Most events that are noted."""
    bytes: int
    """Most bytes of inputs that are kept."""
    seconds: float
    """Seconds after which nothing more is noted."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(OfScript):
    """A run of a script up to one of its steps; see `tasks.training`."""

    steps: int
    """Backwards after which the script is ended."""
    seconds: float
    """Seconds from the first backward on after which it is."""


@dataclass(frozen=True, kw_only=True)
class CurveRequest(TrainingRequest):
    """A run of a script that notes its loss; see `tasks.loss_curve`."""

    task: ClassVar[str] = "loss_curve"
    compile: bool = True
    redrawn: int | None = None
    """Seed of redrawn roundings: Dynamo captures the graphs, and eager's kernels run them. None: none is redrawn."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``torch._inductor.config``, by name."""


@dataclass(frozen=True, kw_only=True)
class ErrorsRequest(TrainingRequest):
    """A compiled run of a script, then calls of its graphs again on both sides and in double precision; see `tasks.signed_errors`."""

    task: ClassVar[str] = "signed_errors"
    every: int
    """Which calls of a graph are kept: the first of so many."""
    calls: int
    """Most calls of a graph that are kept."""
    bytes: int
    """Bytes of their inputs, in all."""
    examining: float
    """Seconds that the kept calls are run again for."""


@dataclass(frozen=True)
class Step:
    """An event of a program that is run side by side: a statement, and the names whose values it makes or changes.

    ``graph``: the name of the function, if it calls a compiled graph; ``is_backward``: whether gradients flow back through what earlier
    events computed. ``needs``: indices of the earlier events that its values come from at once (see `inside/tasks/needed.py`). ``raises``: whether
    the script has caught what it raised. ``is_setting``: whether it sets a switch or a random state. ``draws``: whether it moves a random
    state. ``is_checked``: whether a check of the script's that fails reads what comes from it. ``alive``: results of earlier calls of graphs
    that a later event reads, so that this one may not write over them.
    """

    code: str
    values: Sequence[str] = ()
    graph: str | None = None
    is_backward: bool = False
    needs: Sequence[int] = ()
    raises: bool = False
    is_setting: bool = False
    draws: bool = False
    is_checked: bool = False
    alive: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class SidesRequest(Request):
    """A program of events, run side by side in eager and compiled; see `tasks.side_by_side`."""

    task: ClassVar[str] = "side_by_side"
    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"steps": lambda values: [Step(**value) for value in values]}
    setup: str
    """Imports, settings, and the functions of the graphs."""
    graphs: Mapping[str, str]
    """Keyword arguments of ``torch.compile`` as source text, by the name of the function."""
    inputs: str
    """Statements that make the inputs. ``data`` is what the file holds."""
    file: str | None
    """The file with values of inputs; None if there is none."""
    steps: Sequence[Step]
    seconds: float
    """Seconds after which no further event is run."""


@dataclass(frozen=True, kw_only=True)
class SurveyRequest(OfScript, Switched):
    """A survey run of a script, in which the calls of its graphs are compared."""

    task: ClassVar[str] = "survey"
    parts = {**Switched.parts, "hold": lambda value: HoldPlace(**value)}
    nproc: int = 1
    """Number of ranks, this one included."""
    rank: int = 0
    """The rank of this process, the one that is watched."""
    stacks: str | None = None
    """The folder in which each of the other ranks writes its stacks every few seconds, into a file by its number; None: nowhere."""
    compile: bool = True
    stance: bool = False
    """For a run without the compiler: disable it by the stance ``force_eager``, not by ``TORCHDYNAMO_DISABLE``."""
    steps: int | None = None
    """Number of first calls of each key that are compared; None: as planned."""
    calls: Mapping[int, Sequence[int]] | None = None
    """Numbers of the calls to compare, by graph (see `watch.coverage`); None: the default plan of a first run."""
    hold: HoldPlace | None = None
    """Where to hold, from an earlier run, before compiled code gets there (for a crash); None: at the first failure."""
    passed_by: Sequence[int] = ()
    """Numbers of graphs whose calls are not compared."""
    caches: bool | str = False
    """Whether the compiler's on-disk graph caches are read and written; ``inductor``: only those of Inductor."""
    tolerance: Mapping[str, float] | None = None
    """The script's own tolerance, which then decides; None: the referee's rules."""
    layout: bool = False
    """Whether a difference only in strides is held too."""
    identity: bool = False
    """Whether outputs that are one object where eager's are two are a difference."""
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

    task: ClassVar[str] = "settings"
    setup: str
    expressions: Sequence[str]


@dataclass(frozen=True)
class Question:
    """Base of what a held run is asked about its call; see `HeldCall`."""

    what: ClassVar[str]

    def message(self) -> Message:
        """The fields, as they are sent."""
        return {"what": self.what, **asdict(self)}


@dataclass(frozen=True)
class ProgramQuestion(Question):
    """The graph at a level: ``dynamo``, ``weighted``, ``aot``, or ``auto``. Later questions are about that one."""

    what: ClassVar[str] = "program"
    level: str


@dataclass(frozen=True)
class GoldenQuestion(Question):
    """Golden values, to be written to a file; ``names``: other names than their keys in it."""

    what: ClassVar[str] = "golden"
    keys: Sequence[str]
    file: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ForgetQuestion(Question):
    """Files of golden values to delete."""

    what: ClassVar[str] = "forget"
    files: Sequence[str]


@dataclass(frozen=True)
class LiteralQuestion(Question):
    """Source text for one golden value."""

    what: ClassVar[str] = "literal"
    key: str


@dataclass(frozen=True)
class CallsQuestion(Question):
    """Source text for the inputs of the calls up to the held one."""

    what: ClassVar[str] = "calls"


QUESTIONS: tuple[type[Question], ...] = (
    ProgramQuestion,
    GoldenQuestion,
    ForgetQuestion,
    LiteralQuestion,
    CallsQuestion,
)


def read_question(message: Message) -> Question:
    """The question in a message.

    Raises:
        KeyError: there is no such question, or a field of it is missing.
    """
    kind = next((kind for kind in QUESTIONS if kind.what == message["what"]), None)
    if kind is None:
        raise KeyError(message["what"])
    return kind(**{name: message[name] for name in kind.__dataclass_fields__ if name != "what"})
