"""Messages of script runs and of the zygote, in the form sent over the pipe.

``engine/child/protocol.py`` on the torch-free side has a model of the same name for each, and a test compares them. The
answer of a trial is in ``outcome.py`` on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .failures import ExceptionInfo
from .wire import Message, Said


@dataclass
class Phase(Said):
    """The phase that begins now, so that a crash or a hang can be attributed to it."""

    type: ClassVar[str] = "phase"
    doing: str = ""
    """``compile``, ``run`` (compiled code), ``backward`` (its gradients), ``compare`` (our own work) or ``script``."""
    phase: str = ""
    """The phase of a trial that begins now; empty in a survey."""
    graph: int | None = None
    call: int | None = None
    eager_seconds: float | None = None
    trusted: bool = False
    """Whether every graph was called so often that a script without new compilations may be stopped."""
    attempted: bool = True
    """Whether Dynamo has tried a frame; a process that dies before that is not the compiler's fault."""
    checked: Checked | None = None
    """Coverage so far; only its counts are set."""


@dataclass
class Part(Said):
    """The first use of a compiler part, or the begin or end of a pass.

    ``acted``: whether it made a difference; None at begin.
    """

    type: ClassVar[str] = "part"
    name: str
    acted: bool | None


@dataclass
class Largest:
    """The largest difference between compared values.

    Its module and operator, its size, why it is legal, and the side that float64 supports.
    """

    module: str = ""
    op: str = ""
    absolute: float = 0.0
    relative: float | None = 0.0
    reason: str = "equal to the bit"
    right: str = ""


@dataclass
class Excused:
    """How often a rule skipped or excused something; see ``minimizer/excuses.py``."""

    rule: str
    object: str = ""
    count: int = 1


@dataclass
class Checked:
    """Coverage: how many of the frames, graphs and calls of a run were compared."""

    frames: int
    graphs: int
    planned: int
    calls: int
    calls_made: int
    backward: int
    instances: int | None = None
    largest: Largest | None = None
    not_compared: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    """Python state that only exact runs compare."""
    excused: list[Excused] = field(default_factory=list)


@dataclass
class StackLine:
    """A line of the user's own code on a stack, and the function around it."""

    file: str
    line: int
    code: str
    function: str


@dataclass
class Break:
    """A graph break."""

    reason: str
    """Dynamo's reason: a line for the type, then explanation and hints."""
    stack: list[StackLine]
    """The user's lines from the split function (outermost) down to the break.

    Empty if the place is in a library only.
    """
    function: str
    """The function that the break splits."""
    is_whole: bool = False
    """Whether Dynamo gave up the function as a whole: it runs in eager, and only its callees may be compiled."""
    passes: int = 0
    """How often the place was executed; 0 if no graph next to it shows that."""


@dataclass
class Recompile:
    """A compilation of a function that already has compiled code, or one that the recompile limit refused."""

    function: str
    """Empty for Dynamo's own function around a torch module."""
    file: str
    """Its file, by a name for a reader."""
    line: int
    """The line of its ``def``, also for a continuation after a graph break."""
    frame: str
    """Equal for all compilations of one function, or of one continuation of it."""
    guard: str
    """The failed guard of the latest compiled code."""
    made_by: list[StackLine]
    """The user's lines that created the guard (outermost first), if Dynamo reports them."""
    stack: list[StackLine]
    """The user's lines from the script down to the function."""
    seconds: float
    refused: bool = False
    """Whether the limit was reached: from then on calls without matching compiled code run in eager."""


@dataclass
class Timed:
    """A graph compiled by Inductor, and the times of its calls on both sides in seconds.

    Medians, eager's slow calls, and the fastest compiled one.
    """

    graph: int
    """The graph's index, in order of compilation."""
    place: StackLine
    """The user's line of the first call."""
    turns: int
    """Number of counted pairs of calls."""
    eager: float
    compiled: float
    eager_slow: float
    """The ninth decile of eager's calls."""
    compiled_fast: float


@dataclass
class Kept:
    """Bytes saved for backward by a graph's first call, on both sides, without its arguments and results."""

    graph: int
    """The graph's index, in order of compilation."""
    place: StackLine
    """The user's line of the first call."""
    eager: int
    compiled: int


@dataclass
class EqualBlocks:
    """Modules of one list with equal computation within a graph, each with its own weights; or calls of one module."""

    path: str
    """The path of the list or module from the compiled module; empty if that is the list."""
    count: int
    of: int
    """All modules of the list, or calls of the module, equal or not."""
    nodes: int
    """Nodes of the graph in equal modules or calls."""
    is_one: bool = False
    """Whether it is one module that is called repeatedly, such as the cell of a recurrence."""


@dataclass
class Compilation:
    """The compilation of a graph and its backward, in seconds; phases exclude nested ones."""

    graph: int
    """The graph's index, in order of compilation."""
    place: StackLine
    """The user's line of the first call."""
    is_first: bool
    """Whether it is the function's first compilation, and no recompile."""
    seconds: float
    backward: float
    dynamo: float
    aot: float
    """AOTAutograd, with the passes over the joint graph."""
    lowering: float
    """Inductor up to the generated code, with its passes."""
    code: float
    """Code generation, with the C++ compiler or Triton."""
    nodes: int
    blocks: list[EqualBlocks]


@dataclass
class Changed:
    """A setting with a non-default value; both values as source text.

    ``by``: empty for the script; ``torch.compile`` for an option given there; ``environment`` for a variable, with the
    names of the settings that read it as ``value``. ``is_passing``: it was set when a graph was compiled, and no longer
    at the end.
    """

    name: str
    default: str
    value: str
    by: str = ""
    is_passing: bool = False


@dataclass
class Health:
    """Dynamo's metrics of a run, and call times in seconds.

    Call times are summed over the graphs that were timed on both sides. ``compile_seconds`` is summed over all compilations, and None
    if Dynamo has dropped some of its metrics or nothing was compiled.
    """

    graph_breaks: list[str]
    breaks: int
    recompiles: list[str]
    frames: list[str]
    failed: list[str]
    """Frames in which Dynamo raised an internal error, with the error."""
    compile_seconds: float | None
    untimed: str
    """Why no call was timed; empty if one was."""
    eager_seconds: float | None
    compiled_seconds: float | None
    broken: list[Break] = field(default_factory=list)
    recompiled: list[Recompile] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    calls: int = 0
    """Outermost calls of compiled code; counted in a timed run only."""
    backwards: int | None = None
    """Runs of autograd's engine; None except in a timed run."""
    compilations: list[Compilation] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    """For graphs that may be differentiated; recorded in a timed run only."""
    seconds: float = 0.0
    """Seconds of the run so far, without our comparisons."""


@dataclass
class Failure:
    """How a call fails.

    `Holder` fills in the place (``graph``, ``call``, ``instance``) and the coverage and health so far.
    """

    phase: str
    """``compile``, ``run`` or ``backward``."""
    kind: str | None = None
    exception: ExceptionInfo | None = None
    verdict: Any = None
    """A `referee.verdict.Verdict`."""
    graph: int = -1
    call: int | None = None
    health: Health | None = None
    checked: Checked | None = None
    instance: str = ""
    """Path of the called module instance; empty if unknown, or for the root itself."""


@dataclass
class Seen:
    """A call whose difference did not stop the survey: a suspect, or a difference in memory layout only."""

    graph: int
    call: int
    verdict: Any
    phase: str = "run"
    """``backward`` if its gradients differ."""


@dataclass
class Merged:
    """A call that returned one object for two outputs, one of which the script then changed: its shape, or
    ``requires_grad``.
    """

    graph: int
    call: int
    what: str


@dataclass
class OtherDraws:
    """The first operator that Inductor's own generator draws otherwise than eager does, by its graph and node there; ``what``: in words."""

    graph: int
    node: str
    what: str


@dataclass
class Missing:
    """A call that returned when compiled, and raised in eager."""

    graph: int
    call: int
    exception: ExceptionInfo


@dataclass
class Uncompared:
    """A graph without a comparable call, and the reason."""

    graph: int
    why: str


@dataclass
class GraphCalls:
    """The calls of one graph: the key of each, in order, and the numbers of planned and of compared calls.

    Planned calls are ``watched``; compared ones are listed for values and for gradients.
    """

    keys: list[int]
    watched: list[int]
    compared: list[int]
    backward: list[int]


@dataclass
class InstanceCalls:
    """Call counts of a module instance over graphs of one form: compared calls, compared backwards, and failing calls
    by kind.
    """

    name: str
    graphs: list[int]
    calls: int = 0
    backward: int = 0
    failed: dict[str, int] = field(default_factory=dict)


@dataclass
class Lost:
    """The call in which the process lost its CUDA context; ``call`` is None if during the graph's compilation."""

    graph: int
    call: int | None
    phase: str


@dataclass
class Finished(Said):
    """The survey ended without holding a call: the script ended, raised, or was stopped after enough comparisons."""

    type: ClassVar[str] = "finished"
    stopped: bool
    attempted: bool
    children: int
    exception: ExceptionInfo | None
    seconds: float
    comparing_seconds: float
    checked: Checked
    calls: list[GraphCalls]
    health: Health | None
    uncompared: list[Uncompared]
    suspects: list[Seen]
    layouts: list[Seen]
    merged: list[Merged]
    missing: list[Missing]
    raised: list[ExceptionInfo]
    checks: list[dict[str, float]]
    lost: Lost | None
    instances: list[InstanceCalls]
    modules: list[str]
    unsteady: str
    overwritten: str
    written_over: str
    other_zeros: str
    behind_change: str
    draws: OtherDraws | None
    notes: list[str]
    printed: str
    output: str | None = None
    """What a timed run printed; None if the run was not timed."""


@dataclass
class Held(Said):
    """The survey holds a call. ``program`` is None if the graph or its inputs cannot be written as source text."""

    type: ClassVar[str] = "held"
    failure: Failure
    program: Message | None


@dataclass
class Ready(Said):
    """The zygote's first message: versions and hardware visible to this Python, and whether there may be an NVIDIA GPU."""

    type: ClassVar[str] = "ready"
    environment: dict[str, str]
    gpu: bool
    lacks: list[str] = field(default_factory=list)
    """Sentences on private parts of this torch without which no verdict would be sure: the zygote has ended."""
    does_without: list[str] = field(default_factory=list)
    """Sentences on those that only cost time or detail."""


@dataclass
class Broken(Said):
    """The zygote's first message if torch or our own code cannot be imported: the reason."""

    type: ClassVar[str] = "broken"
    message: str


@dataclass
class Stacks(Said):
    """The stacks of all threads of a running child, sampled on request."""

    type: ClassVar[str] = "stacks"
    text: str


@dataclass
class End:
    """How a task's process ended, as seen by the zygote. ``stacks``: of all threads, if a signal killed it.

    ``taken``: the most memory that it had in use, in bytes, beyond that of the zygote.
    """

    exit: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    log: str
    stacks: str = ""
    taken: int = 0
