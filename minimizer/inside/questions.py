"""Requests to a forked child: a dataclass per task, and per question to a held run of a script.

Both sides load this module, as they do `rulings`: the engine creates these and sends their fields, the child reads
them back. It needs the standard library only, since the child runs in the user's Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

Message = dict[str, Any]
R = TypeVar("R", bound="Request")
STACKS_EVERY = 4
"""Seconds between two stack dumps of an unwatched rank."""
MOST_DELAYS = 1000
"""Most calls whose durations an exact run reports, so that later runs can delay theirs as much."""
LEAST_TURNS = 5
"""Least timed pairs of calls that say which side of a graph is slower."""
RANK_ENDED = "Ended"
"""The first word of the line in which such a rank reports its end."""


WITHOUT_KERNELS = "inductor without kernels"
"""In the place of a backend's name: Inductor, whose generated code calls eager's operators. No C++ or Triton is compiled."""
CALLS_EAGER: Mapping[str, Any] = {"fallback_by_default": True}
"""The setting of Inductor that does so."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Base of all requests.

    For the zygote: ``environ``, variables to set before the task; ``nice``, the decrease of its priority; ``memory``,
    its limit in bytes (None: that of every task).
    """

    task: ClassVar[str]
    """The task that answers it."""
    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """Parsers of fields that are dataclasses themselves, by name."""
    environ: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    memory: int | None = None

    @classmethod
    def read(cls: type[R], message: Message) -> R:
        """Read the request's fields from a message; missing ones get their defaults.

        Raises:
            TypeError: a field without a default is missing.
        """
        given = {name: message[name] for name in cls.__dataclass_fields__ if name in message}
        made = {name: read(given[name]) for name, read in cls.parts.items() if given.get(name)}
        return cls(**{**given, **made})

    def message(self) -> Message:
        """The fields, as sent."""
        return asdict(self)


@dataclass(frozen=True)
class Switches:
    """Parts of the compiler to switch (see `compiler.subsystems`).

    Parts in ``off`` are off; of a kind in ``only``, just the named parts are on; all others are on.
    """

    off: Sequence[str] = ()
    only: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Switched(Request):
    """A request that can switch off parts of the compiler."""

    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {"switches": lambda value: Switches(**value)}
    switches: Switches | None = None
    """None: the compiler unchanged, and no part is reported."""
    threads: int | None = None
    """Number of kernels built in parallel; None: one per core if the request runs alone, else 1."""


@dataclass(frozen=True, kw_only=True)
class GivenInput:
    """An input of a trial: a golden value by its key, or source text that creates it."""

    name: str
    golden: str | None = None
    code: str | None = None
    is_view: bool = False
    """Whether the text derives it from another input, by that input's name."""
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
    """Expressions for the contexts around the call of the function; its backward runs outside of them."""
    grad: bool = False
    tolerance: Mapping[str, Any] | None = None
    """None: the fp64 rule; else the script's own ``{rtol, atol, equal_nan}``."""
    identity: bool = False
    """Whether it is a difference if two outputs are one object, and not in eager."""
    backward: bool = True
    """Whether gradients are compared too."""
    compilations: int = 1
    """Number of compilations in this process; more than one for a flaky failure."""
    failures: int = 1
    """Stop after this many compilations that did not end as ``same``."""
    seconds: float = float("inf")
    """Begin no compilation once this many seconds have passed since the first one ended; in a table of layers, begin no
    layer.
    """


@dataclass(frozen=True, kw_only=True)
class ObserveRequest(TrialRequest):
    """A program as in a trial, run in eager only, to observe its operators and exceptions."""

    task: ClassVar[str] = "observe"


@dataclass(frozen=True, kw_only=True)
class CostRequest(TrialRequest):
    """A program as in a trial, measured on both sides and not compared."""

    task: ClassVar[str] = "measure_cost"
    of: str
    """The measured cost.

    ``slow``: seconds of a call. ``memory``: bytes that autograd saves in one. ``compile_time``: seconds of the first
    compiled call, against those of a single operator.
    """


@dataclass(frozen=True, kw_only=True)
class DrawsRequest(TrialRequest):
    """A program as in a trial, whose random numbers are compared by their distribution.

    ``fallback``: whether compiled code draws by eager's operators, not by Inductor's own.
    """

    task: ClassVar[str] = "measure_draws"
    fallback: bool = False


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
    """Functions in which an earlier attempt died, which are not compiled again."""


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
    """A backend that replaces the script's own, or `WITHOUT_KERNELS`; None: the script's."""
    observe: bool = False
    """Report the aten operators that run inside compiled functions; with ``compile`` false."""
    measure: bool = False
    """Report graph breaks and recompiles with the script's lines; with ``compile``."""
    count_saved: bool = False
    """Report the bytes that autograd saves for backwards."""
    recompile_limit: int | None = None
    """Most compilations of one function before its other calls run in eager, unless the script sets it.

    None: Dynamo's default.
    """
    state: int = 0
    """The number of the initial random state of the script (see `RandomStart`)."""
    caches: bool = False
    """Whether the script may use the compiler's graph caches, empty at first; else they are off."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Features of one exact run, which may differ from other runs of the comparison. Calls are numbered from 1."""

    eager: tuple[int, int | None] | None = None
    """The first and the last call to run without the compiler; None as last: all later ones. None: no call."""
    full: Sequence[int] | None = None
    """Numbers of the calls and backwards with a full look before and after; None: the 1st, 2nd, 4th, 8th …"""
    reset: int | None = None
    """The call preceded by ``torch._dynamo.reset()``; None: no call."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``torch._dynamo.config``, by name."""
    regions: bool = True
    """Whether ``nested_compile_region`` takes effect; otherwise it is ignored."""
    moved: bool = False
    """Whether to change the environment of the script: addresses, memory, garbage, and lifetimes of objects (see
    `Moved`).
    """
    delays: Sequence[float] = ()
    """Seconds to wait before each call in a changed environment."""
    resident: int = 0
    """Bytes to use in addition to the script's needs in a changed environment."""
    shown: Sequence[int] = ()
    """Calls to run without the compiler, in addition to those of ``eager``."""
    redrawn: Mapping[str, Any] | None = None
    """``seed`` and ``units``: the calls and backwards in which every rounding of the graphs is redrawn; None: none."""
    whole: int | None = None
    """The call or backward, by its number among both, at whose looks the elements of tensors are kept.

    0: the end. None: none.
    """
    written: bool = False
    """Whether to record what functions passed to the compiler write while it runs them."""
    own_backend: bool = False
    """Whether calls are compiled with the script's backend instead of ``eager``."""
    bare: bool = False
    """Whether the compiler and its wrappers are absent."""
    through: Sequence[str] | None = None
    """Looks at wrappers that see the object without its wrapper (see `Glances`); None: such looks are not recorded."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Conditions shared by all exact runs of a comparison."""

    replay: str | None = None
    """What the script read of the machine in an earlier run, for replay (see `Machine`); None: record it."""
    library: bool = False
    """Whether eager calls take compiled branches.

    torch's own modules and optimizers are told that they are compiled, and what Dynamo decomposes is decomposed.
    """
    modules: Sequence[str] = ()
    """Names of modules of packages whose globals and classes are looked at like the script's own."""
    in_order: bool = False
    """Whether logging functions stay in place instead of moving after their graph, even if the script allows the move.
    """
    aot: bool = False
    """Whether AOTAutograd traces Dynamo's graphs, as in the backend ``aot_eager``, if the script's backend does so."""
    state: int = 0
    """The number of the initial random state of the script (see `RandomStart`)."""


@dataclass(frozen=True, kw_only=True)
class ExactRequest(Plan, Conditions, Request):
    """An exact run of a script; see `exact_run`."""

    task: ClassVar[str] = "exact_run"
    text: str | None
    script: str
    args: Sequence[str] = ()


@dataclass(frozen=True)
class HoldPlace:
    """A call of a graph.

    ``call`` is None before the graph is compiled, and ``phase`` ``backward`` for the call's gradients.
    """

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
    """A run of a script that records the calls of torch around its compiled graphs; see `tasks.trace`."""

    task: ClassVar[str] = "trace"
    file: str
    """The file for values of inputs that have no short source text."""
    state: int = 0
    """The number of the initial random state of the script (see `RandomStart`)."""
    events: int
    """Most recorded events."""
    bytes: int
    """Most bytes of stored inputs."""
    seconds: float
    """Seconds after which nothing more is recorded."""


@dataclass(frozen=True, kw_only=True)
class TrainingRequest(OfScript):
    """A run of a script up to one of its steps; see `tasks.training`."""

    steps: int
    """Backwards after which the script is ended."""
    seconds: float
    """Seconds after the first backward at which it is ended."""


@dataclass(frozen=True, kw_only=True)
class CurveRequest(TrainingRequest):
    """A run of a script that records its loss; see `tasks.loss_curve`."""

    task: ClassVar[str] = "loss_curve"
    compile: bool = True
    redrawn: int | None = None
    """Seed of redrawn roundings: Dynamo captures the graphs, and eager's kernels run them. None: none are redrawn."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``torch._inductor.config``, by name."""


@dataclass(frozen=True, kw_only=True)
class ErrorsRequest(TrainingRequest):
    """A compiled run of a script, then repeated calls of its graphs on both sides and in double precision; see
    `tasks.signed_errors`.
    """

    task: ClassVar[str] = "signed_errors"
    every: int
    """Interval of the calls of a graph that are kept."""
    calls: int
    """Most calls of a graph to keep."""
    bytes: int
    """Most bytes of their inputs, in total."""
    examining: float
    """Seconds for rerunning the kept calls."""


@dataclass(frozen=True)
class SidesStep:
    """An event of a program run side by side: a statement, and the names whose values it creates or changes.

    ``graph``: the name of the function, if it calls a compiled graph; ``is_backward``: whether gradients flow back
    through the results of earlier events. ``needs``: indices of the earlier events that directly produce its operands
    (see `inside/tasks/needed.py`). ``raises``: whether the script caught its exception. ``is_setting``: whether it sets
    a switch or a random state. ``draws``: whether it advances a random state. ``is_checked``: whether a failing check
    of the script's reads its results. ``alive``: results of earlier graph calls that a later event reads, so that this
    one must not overwrite them.
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
    parts: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "steps": lambda values: [SidesStep(**value) for value in values]
    }
    setup: str
    """Imports, settings, and the functions of the graphs."""
    graphs: Mapping[str, str]
    """Keyword arguments of ``torch.compile`` as source text, by the name of the function."""
    inputs: str
    """Statements that create the inputs. ``data`` is the content of the file."""
    file: str | None
    """The file with values of inputs; None if there is none."""
    steps: Sequence[SidesStep]
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
    """The folder in which each other rank dumps its stacks every few seconds, one file per rank; None: nowhere."""
    compile: bool = True
    stance: bool = False
    """For a run without the compiler: disable it by the stance ``force_eager``, not by ``TORCHDYNAMO_DISABLE``."""
    steps: int | None = None
    """Number of first calls of each key to compare; None: as planned."""
    calls: Mapping[int, Sequence[int]] | None = None
    """Numbers of the calls to compare, by graph (see `watch.coverage`); None: the default plan of a first run."""
    hold: HoldPlace | None = None
    """The call, from an earlier run, to hold just before compiled code runs it (for a crash).

    None: hold at the first failure.
    """
    passed_by: Sequence[int] = ()
    """Numbers of graphs whose calls are not compared."""
    caches: bool | str = False
    """Whether the compiler's on-disk graph caches are read and written; ``inductor``: only those of Inductor."""
    tolerance: Mapping[str, float] | None = None
    """The script's own tolerance as the criterion; None: the referee's rules."""
    layout: bool = False
    """Whether a difference only in strides is held too."""
    identity: bool = False
    """Whether it is a difference if two outputs are one object, and not in eager."""
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
    """Base of questions to a held run about its call; see `HeldCall`."""

    what: ClassVar[str]

    def message(self) -> Message:
        """The fields, as sent."""
        return {"what": self.what, **asdict(self)}


@dataclass(frozen=True)
class ProgramQuestion(Question):
    """The graph at a level: ``dynamo``, ``weighted``, ``aot``, or ``auto``. Later questions refer to it."""

    what: ClassVar[str] = "program"
    level: str


@dataclass(frozen=True)
class GoldenQuestion(Question):
    """Golden values to write to a file; ``names``: names in the file other than their keys."""

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
