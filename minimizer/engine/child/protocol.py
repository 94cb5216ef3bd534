"""Messages of the zygote and of runs of a script: untrusted, bounded and validated here, and never unpickled.

The sender's dataclasses are in ``inside/messages.py``; the answers of trials are in ``outcome.py``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator

from minimizer.engine.child.bounded import Count, Long, Loose, Name, Number, Seconds, Text
from minimizer.engine.child.compilations import Break, Recompile, StackLine
from minimizer.engine.child.outcome import ExceptionInfo, NumericKind, Verdict
from minimizer.excuses import EXCUSES
from minimizer.vocabulary import Kind

MAX_LINE = 64 << 20
"""Most bytes of one message from the child."""
MAX_NODES = 20_000
"""Most nodes of one graph, with the bodies of its higher-order operators, and most inputs and outputs.

Localization and reduction make passes over all of them.
"""
MAX_CALLS = MAX_GRAPHS = 200_000
MAX_DIMENSIONS = 256
"""Most dimensions of a tensor; most operators take 64."""
MAX_MODULES = 64
"""Most components of a node's module path; a longer one is cut."""


class Timed(Loose):
    """A graph compiled by Inductor, first called from ``place``, and the times of its calls on both sides in seconds.

    ``turns``: number of counted pairs of calls. ``eager``, ``compiled``: medians. ``eager_slow``: the ninth decile of
    eager's calls. ``compiled_fast``: the fastest compiled one.
    """

    graph: Count = 0
    place: StackLine
    turns: Count
    eager: Seconds
    compiled: Seconds
    eager_slow: Seconds
    compiled_fast: Seconds


class Kept(Loose):
    """Bytes saved for backward by a graph's first call, from ``place``, on both sides, without arguments and results."""

    graph: Count = 0
    place: StackLine
    eager: Count
    compiled: Count


class EqualBlocks(Loose):
    """Modules of one list (``path``, from the compiled module) with equal computation.

    ``count`` ``of`` all modules of the list, with their ``nodes`` of the graph. ``is_one``: calls of one module instead.
    """

    path: Name
    count: Count
    of: Count
    nodes: Count
    is_one: bool = False


class Compilation(Loose):
    """The compilation of a graph and its ``backward``, first called from ``place``, in seconds; phases exclude nested
    ones.

    ``is_first``: the function's first, so no recompile. ``code``: code generation, with the C++ compiler or Triton.
    ``nodes``: all of the graph.
    """

    graph: Count = 0
    place: StackLine
    is_first: bool
    seconds: Seconds
    backward: Seconds = 0.0
    dynamo: Seconds = 0.0
    aot: Seconds = 0.0
    lowering: Seconds = 0.0
    code: Seconds = 0.0
    nodes: Count = 0
    blocks: list[EqualBlocks] = Field(default_factory=list, max_length=50)


class Changed(Loose):
    """A setting with a non-default value; both values as source text (see ``inside/messages.py``)."""

    name: Name
    default: Name = ""
    value: Name = ""
    by: Literal["", "torch.compile", "environment"] = ""
    is_passing: bool = False


class Health(Loose):
    """Dynamo's own counts of a run (graph breaks, recompiles), and the time of a call in seconds."""

    graph_breaks: list[Text] = Field(default_factory=list, max_length=100)
    breaks: Count = 0
    """The number of graph breaks, including those not listed."""
    recompiles: list[Text] = Field(default_factory=list, max_length=100)
    frames: list[Text] = Field(default_factory=list, max_length=100)
    failed: list[Text] = Field(default_factory=list, max_length=100)
    """Frames in which Dynamo had an internal error, with the error."""
    compile_seconds: Number = None
    untimed: Text = ""
    """The reason why no call was timed; empty if one was."""
    eager_seconds: Number = None
    compiled_seconds: Number = None
    broken: list[Break] = Field(default_factory=list, max_length=100)
    recompiled: list[Recompile] = Field(default_factory=list, max_length=500)
    changed: list[Changed] = Field(default_factory=list, max_length=100)
    timed: list[Timed] = Field(default_factory=list, max_length=100)
    calls: Count = 0
    """Outermost calls of compiled code; counted in a timed run only."""
    backwards: Count | None = None
    """Runs of autograd's engine; None except in a timed run."""
    compilations: list[Compilation] = Field(default_factory=list, max_length=100)
    kept: list[Kept] = Field(default_factory=list, max_length=100)
    seconds: Seconds = 0.0
    """Seconds of the run, without our comparisons."""


class Largest(Loose):
    """The largest difference of any compared value, its place, and the reason why it is legal."""

    module: Name = ""
    op: Name = ""
    absolute: Number = None
    relative: Number = None
    reason: Name = ""
    right: Literal["", "eager", "compiled"] = ""


class Excused(Loose):
    """How often a rule skipped or excused something. `Checked` drops rules that we do not know."""

    rule: Name
    object: Name = ""
    count: Count = 1


class Checked(Loose):
    """The coverage of a survey: calls compared of calls made; see ``report.Checked``."""

    frames: Count = 0
    graphs: Count = 0
    calls: Count = 0
    planned: Count = 0
    calls_made: Count = 0
    instances: Count | None = None
    backward: Count = 0
    largest: Largest | None = None
    not_compared: list[Name] = Field(default_factory=list, max_length=50)
    state: list[Name] = Field(default_factory=list, max_length=50)
    """Python state that only exact runs compare."""
    excused: list[Excused] = Field(default_factory=list, max_length=200)

    @field_validator("excused")
    @classmethod
    def _known(cls, told: list[Excused]) -> list[Excused]:
        return [one for one in told if one.rule in EXCUSES]


class Phase(Loose):
    """The phase that a process announces before it begins it; by default none."""

    doing: Name = ""
    phase: Name = ""
    graph: Count | None = None
    call: Count | None = None
    eager_seconds: Number = None
    trusted: bool = False
    attempted: bool = True
    checked: Checked | None = None


class Stacks(Loose):
    """The stacks of all threads of a running process."""

    text: Long = ""


class Part(Loose):
    """The use of a part of the compiler; ``acted``: whether it made a difference, None when a pass begins."""

    name: Text = ""
    acted: bool | None = None


class Failure(Loose):
    """The failure that stopped the survey: graph, call, and the error or difference there."""

    graph: int
    call: int = -1
    phase: Literal["compile", "run", "backward"]
    kind: Literal[Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR, Kind.MISSING_ERROR] | NumericKind | None = None
    exception: ExceptionInfo | None = None
    verdict: Verdict | None = None
    health: Health | None = None
    checked: Checked | None = None
    instance: Name = ""
    """The path of the module instance that made the call; empty if unknown, or for the root itself."""


class Seen(Loose):
    """A call whose difference did not stop the survey: a suspect, or a difference of memory layout only.

    The difference of a suspect may be legal rounding that a jump made visible.
    """

    graph: int
    call: int
    verdict: Verdict
    phase: Literal["run", "backward"] = "run"


class Merged(Loose):
    """A call that returned one object for two outputs, which the script then changed; ``what``: in words."""

    graph: int
    call: int
    what: Text


class OtherDraws(Loose):
    """An operator that Inductor's own generator draws from another distribution than eager does; ``what``: in words."""

    graph: int
    node: Name
    what: Text


class Missing(Loose):
    """A call that returned when compiled, while its graph raised in eager."""

    graph: int
    call: int
    exception: ExceptionInfo


class Uncompared(Loose):
    """A graph without any comparable call in a run, and the reason."""

    graph: Count
    why: Text = ""


class GraphCalls(Loose):
    """The calls of one graph, in order; see ``inside/watch/coverage.py``."""

    keys: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    watched: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    compared: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    backward: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)


class InstanceCalls(Loose):
    """The calls of a module instance: its graphs, the number of compared calls, and of failed ones, by kind."""

    name: Name
    graphs: list[Count] = Field(default_factory=list, max_length=MAX_NODES)
    calls: Count = 0
    backward: Count = 0
    failed: dict[Name, Count] = Field(default_factory=dict, max_length=20)


class Lost(Loose):
    """The call of a graph in which the process lost its CUDA context; ``call`` None: during the graph's compilation."""

    graph: int
    call: int | None = None
    phase: Literal["compile", "run", "backward"]


class Finished(Loose):
    """The end of a survey without a held call: the script ended or raised, or was stopped because enough was compared.

    ``raised``, in a run without the compiler: exceptions that calls of torch raised, caught by the script or not.
    ``comparing_seconds``: the part of ``seconds`` spent on comparison. ``calls``: by graph. ``uncompared``: graphs
    without any comparable call.
    """

    stopped: bool = False
    attempted: bool = True
    """Whether Dynamo got a frame to compile."""
    children: int = Field(default=0, ge=0, le=10**9)
    """Number of processes that the script started."""
    exception: ExceptionInfo | None = None
    seconds: Number = None
    comparing_seconds: Number = None
    checked: Checked = Checked()
    calls: list[GraphCalls] = Field(default_factory=list, max_length=MAX_GRAPHS)
    health: Health | None = None
    uncompared: list[Uncompared] = Field(default_factory=list, max_length=100)
    suspects: list[Seen] = Field(default_factory=list, max_length=100)
    layouts: list[Seen] = Field(default_factory=list, max_length=100)
    """For each graph, the first call with equal values and another memory layout."""
    merged: list[Merged] = Field(default_factory=list, max_length=100)
    missing: list[Missing] = Field(default_factory=list, max_length=100)
    raised: list[ExceptionInfo] = Field(default_factory=list, max_length=100)
    checks: list[dict[Text, float]] = Field(default_factory=list, max_length=100)
    lost: Lost | None = None
    instances: list[InstanceCalls] = Field(default_factory=list, max_length=2000)
    """For a run that continues after failing calls."""
    modules: list[Name] = Field(default_factory=list, max_length=5000)
    """For a timed run: the modules that ran compiled, in whole or in part."""
    unsteady: Text = ""
    """The call at which eager differed from eager; empty if it never did."""
    overwritten: Text = ""
    """The call that overwrote an output of an earlier one that the script still held; empty if none did."""
    written_over: Text = ""
    """The first such call with an output outside of CUDA graph memory."""
    other_zeros: Text = ""
    """The first call with a result that is right except for the sign of a zero; empty if there was none."""
    behind_change: Text = ""
    """The first backward before which the script had changed an input of its call, unseen by autograd; empty if there was none."""
    draws: OtherDraws | None = None
    """The first random operator that Inductor draws from another distribution than eager; None if none is seen to be."""
    notes: list[Text] = Field(default_factory=list, max_length=100)
    printed: Text = ""
    """The last line of its output, if the script ended itself with an exit status."""
    output: Long | None = None
    """What a timed run printed; None if the run was not timed."""


class Held(Loose):
    """A survey held at its failing call; ``program`` is None if the graph or its inputs cannot be expressed as one."""

    failure: Failure
    program: dict[str, Any] | None


class MadeCall(Loose):
    """Source text for the inputs of a call: statements, then an expression per input, by its name."""

    statements: list[Text] = Field(default_factory=list, max_length=1000)
    values: dict[Name, Text] = Field(default_factory=dict, max_length=10_000)


class MadeCalls(Loose):
    """The calls that led to a held one, which comes last."""

    calls: list[MadeCall] = Field(min_length=1, max_length=100)


class End(Loose):
    """The zygote's report on the end of a task. ``stacks``: of all threads, if it died by a signal."""

    exit: int | None = None
    stacks: Long = ""
    signal: int | None = None
    timed_out: bool = False
    seconds: float = 0.0
    log: str = ""
    taken: int = 0
    """The most memory that it had in use, in bytes, beyond that of the zygote."""


class Ready(Loose):
    """The zygote's first message: versions and hardware of its Python, and what its torch lacks."""

    environment: dict[
        Annotated[str, StringConstraints(max_length=50)], Annotated[str, StringConstraints(max_length=300)]
    ] = Field(default_factory=dict, max_length=30)
    gpu: bool = False
    lacks: list[Annotated[str, StringConstraints(max_length=500)]] = Field(default_factory=list, max_length=100)
    does_without: list[Annotated[str, StringConstraints(max_length=500)]] = Field(default_factory=list, max_length=100)
