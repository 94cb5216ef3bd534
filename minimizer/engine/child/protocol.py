"""What runs of a script and the zygote may send: untrusted data, bounded and validated here and never unpickled.

``inside/messages.py`` has a dataclass of each; what trials answer is in ``outcome.py``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from minimizer.engine.child.bounded import Count, Long, Loose, Name, Number, Text
from minimizer.engine.child.outcome import ExceptionInfo, Verdict

MAX_LINE = 64 << 20
"""Longest message, in bytes, that is read from the child."""
MAX_NODES = 20_000
"""Of one graph, the bodies of its operators included, and as many inputs and outputs: what takes it apart has passes over all of it."""
MAX_CALLS = MAX_GRAPHS = 200_000
MAX_MODULES = 64
"""How deep in the tree of modules a node may lie: a path is cut there."""


class Health(Loose):
    """What Dynamo noted of a run, and how long a call takes, in seconds."""

    graph_breaks: list[Text] = Field(default_factory=list, max_length=100)
    breaks: Count = 0
    """How many graph breaks there were, in all."""
    recompiles: list[Text] = Field(default_factory=list, max_length=100)
    frames: list[Text] = Field(default_factory=list, max_length=100)
    failed: list[Text] = Field(default_factory=list, max_length=100)
    """Frames in which Dynamo met an error of its own, and the error."""
    compile_seconds: Number = None
    untimed: Text = ""
    """Why no call was timed."""
    eager_seconds: Number = None
    compiled_seconds: Number = None


class Largest(Loose):
    """The largest difference in any value that was compared, where it is, and why it is legal."""

    module: Name = ""
    op: Name = ""
    absolute: Number = None
    relative: Number = None
    reason: Name = ""


class Checked(Loose):
    """How much of what ran was compared; see ``report.Checked``."""

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


class Phase(Loose):
    """What a process does next, in its own words; of one that has said nothing yet all is as it is here."""

    doing: Name = ""
    phase: Name = ""
    graph: Count | None = None
    call: Count | None = None
    eager_seconds: Number = None
    trusted: bool = False
    attempted: bool = True
    checked: Checked | None = None


class Stacks(Loose):
    """The stacks of all threads of a process that runs."""

    text: Long = ""


class Part(Loose):
    """A part of the compiler was used; ``acted`` says whether it made a difference, and is None of a pass that begins."""

    name: Text = ""
    acted: bool | None = None


class Failure(Loose):
    """Where the survey stopped: graph and call, and what was wrong there."""

    graph: int
    call: int = -1
    phase: Literal["compile", "run", "backward"]
    kind: Literal["compile_error", "runtime_error", "wrong_output", "wrong_gradient", "wrong_metadata"] | None = None
    exception: ExceptionInfo | None = None
    verdict: Verdict | None = None
    health: Health | None = None
    checked: Checked | None = None
    instance: Name = ""
    """The path of the module instance that the call is one of; empty where it is not known, or the root itself."""


class Seen(Loose):
    """A call whose difference did not stop the survey: a suspect, or one of memory layout alone.

    The difference of a suspect may be legal rounding made visible by a discrete operator.
    """

    graph: int
    call: int
    verdict: Verdict
    phase: Literal["run", "backward"] = "run"


class Missing(Loose):
    """A call that returned when compiled, while its graph raised in eager."""

    graph: int
    call: int
    exception: ExceptionInfo


class Uncompared(Loose):
    """A graph of which no call could be compared in a run, and the reason."""

    graph: Count
    why: Text = ""


class GraphCalls(Loose):
    """The calls of one graph, in their order; see ``inside/watch/coverage.py``."""

    keys: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    watched: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    compared: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)
    backward: list[Count] = Field(default_factory=list, max_length=MAX_CALLS)


class InstanceCalls(Loose):
    """The calls of a module instance: of which graphs, all calling the same; how many were compared, and failed by kind."""

    name: Name
    graphs: list[Count] = Field(default_factory=list, max_length=MAX_NODES)
    calls: Count = 0
    backward: Count = 0
    failed: dict[Name, Count] = Field(default_factory=dict, max_length=20)


class Lost(Loose):
    """The call of a graph in which CUDA failed so that its process could use the GPU no more; None as call: as it was compiled."""

    graph: int
    call: int | None = None
    phase: Literal["compile", "run", "backward"]


class Finished(Loose):
    """The survey came to the end of the script, or to an exception that it raised, or was stopped since it had seen enough.

    ``raised``, in a run without the compiler: what calls of torch raised, whether or not the script caught it. Of all ``seconds``
    comparing took ``comparing_seconds``. ``calls``: by graph. ``uncompared``: the graphs of which no call could be compared, each
    with the reason.
    """

    stopped: bool = False
    attempted: bool = True
    """Whether Dynamo was given a frame to compile."""
    children: int = Field(default=0, ge=0, le=10**9)
    """Processes that the script started."""
    exception: ExceptionInfo | None = None
    seconds: Number = None
    comparing_seconds: Number = None
    checked: Checked = Checked()
    calls: list[GraphCalls] = Field(default_factory=list, max_length=MAX_GRAPHS)
    health: Health | None = None
    uncompared: list[Uncompared] = Field(default_factory=list, max_length=100)
    suspects: list[Seen] = Field(default_factory=list, max_length=100)
    layouts: list[Seen] = Field(default_factory=list, max_length=100)
    """Of each graph the first call whose values are right and whose memory layout is another."""
    missing: list[Missing] = Field(default_factory=list, max_length=100)
    raised: list[ExceptionInfo] = Field(default_factory=list, max_length=100)
    checks: list[dict[Text, float]] = Field(default_factory=list, max_length=100)
    lost: Lost | None = None
    instances: list[InstanceCalls] = Field(default_factory=list, max_length=2000)
    """Of a run that was to go on behind calls that fail."""
    modules: list[Name] = Field(default_factory=list, max_length=5000)
    """Of a run that was timed: the modules of which something ran compiled."""
    unsteady: Text = ""
    """The call at which eager was seen to differ from eager; empty if it never did."""
    overwritten: Text = ""
    """The call that wrote over an output of an earlier one that the script still held; empty if none did."""
    notes: list[Text] = Field(default_factory=list, max_length=100)


class Held(Loose):
    """The survey stopped at a call and holds it; there is no program where its graph or inputs cannot be written down."""

    failure: Failure
    program: dict[str, Any] | None


class MadeCall(Loose):
    """How the inputs of a call are made: statements that come first, and an expression for each input of the program, by name."""

    statements: list[Text] = Field(default_factory=list, max_length=1000)
    values: dict[Name, Text] = Field(default_factory=dict, max_length=10_000)


class MadeCalls(Loose):
    """The calls that led to a held one, and that one itself, last."""

    calls: list[MadeCall] = Field(min_length=1, max_length=100)


class End(Loose):
    """The zygote's word on how a task ended. ``stacks``: of all threads, where it died by a signal."""

    exit: int | None = None
    stacks: Long = ""
    signal: int | None = None
    timed_out: bool = False
    seconds: float = 0.0
    log: str = ""


class Ready(Loose):
    """The zygote's first words: what this Python has."""

    environment: dict[
        Annotated[str, StringConstraints(max_length=50)], Annotated[str, StringConstraints(max_length=300)]
    ] = Field(default_factory=dict, max_length=30)
    gpu: bool = False
