"""What a run of a script says over the pipe, and what the zygote says; the torch-free side has a model of each, by the same name.

Those are in ``engine/child/protocol.py``, and a test holds the two against each other. What a trial answers is in ``outcome.py``, on
either side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from .failures import ExceptionInfo
from .wire import Message, Said


@dataclass
class Phase(Said):
    """What the process does next, so that a crash or a hang can be attributed."""

    type: ClassVar[str] = "phase"
    doing: str = ""
    """``compile``, ``run`` (compiled code), ``backward`` (its gradients), ``compare`` (our own work) or ``script``."""
    phase: str = ""
    """Of a trial: the part of it that comes next."""
    graph: int | None = None
    call: int | None = None
    eager_seconds: float | None = None
    trusted: bool = False
    """Whether every graph was called often enough for a script that compiles nothing new to be stopped."""
    attempted: bool = True
    """Whether Dynamo has tried a frame, so that what ends the process before that is not laid at its door."""
    checked: Checked | None = None
    """What was compared until now; its counts alone."""


@dataclass
class Part(Said):
    """A part of the compiler was used; ``acted`` says whether it made a difference, and is None of a pass that begins."""

    type: ClassVar[str] = "part"
    name: str
    acted: bool | None


@dataclass
class Largest:
    """The largest difference in any value that was compared, where it is, and why it is legal."""

    module: str = ""
    op: str = ""
    absolute: float = 0.0
    relative: float | None = 0.0
    reason: str = "equal to the bit"


@dataclass
class Checked:
    """How much of what ran was compared."""

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


@dataclass
class Health:
    """What Dynamo noted of a run, and how long a call takes, in seconds.

    Seconds of a call are summed over the graphs that were timed on both sides, those of compiling over all compilations: None where
    some are forgotten, or nothing was compiled.
    """

    graph_breaks: list[str]
    breaks: int
    recompiles: list[str]
    frames: list[str]
    failed: list[str]
    """Frames in which Dynamo met an error of its own, and the error."""
    compile_seconds: float | None
    untimed: str
    """Why no call was timed."""
    eager_seconds: float | None
    compiled_seconds: float | None


@dataclass
class Failure:
    """How a call fails; where, and what was seen until then, is added by whoever holds it."""

    phase: str
    """``compile``, ``run`` or ``backward``."""
    kind: str | None = None
    exception: ExceptionInfo | None = None
    verdict: Any = None
    """A `referee.Verdict`."""
    graph: int = -1
    call: int | None = None
    health: Health | None = None
    checked: Checked | None = None
    instance: str = ""
    """The path of the module instance that the call is one of; empty where it is not known, or the root itself."""


@dataclass
class Seen:
    """A call whose difference did not stop the survey: a suspect, or one of memory layout alone."""

    graph: int
    call: int
    verdict: Any
    phase: str = "run"
    """``backward`` where its gradients differ."""


@dataclass
class Missing:
    """A call that returned when compiled, while its graph raised in eager."""

    graph: int
    call: int
    exception: ExceptionInfo


@dataclass
class Uncompared:
    """A graph of which no call could be compared in a run, and the reason."""

    graph: int
    why: str


@dataclass
class GraphCalls:
    """The calls of one graph, in their order: the key of each, and the numbers of those watched, compared, compared in a backward."""

    keys: list[int]
    watched: list[int]
    compared: list[int]
    backward: list[int]


@dataclass
class InstanceCalls:
    """The calls of a module instance: of which graphs, all calling the same; how many were compared, and failed by kind."""

    name: str
    graphs: list[int]
    calls: int = 0
    backward: int = 0
    failed: dict[str, int] = field(default_factory=dict)


@dataclass
class Lost:
    """The call of a graph in which CUDA failed so that its process could use the GPU no more; None as call: as it was compiled."""

    graph: int
    call: int | None
    phase: str


@dataclass
class Finished(Said):
    """The survey came to the end of the script, or to an exception that it raised, or was stopped since it had seen enough."""

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
    missing: list[Missing]
    raised: list[ExceptionInfo]
    checks: list[dict[str, float]]
    lost: Lost | None
    instances: list[InstanceCalls]
    modules: list[str]
    unsteady: str
    overwritten: str
    notes: list[str]


@dataclass
class Held(Said):
    """The survey stopped at a call and holds it; there is no program where its graph or inputs cannot be written down."""

    type: ClassVar[str] = "held"
    failure: Failure
    program: Message | None


@dataclass
class Ready(Said):
    """The zygote's first words: what this Python has."""

    type: ClassVar[str] = "ready"
    environment: dict[str, str]
    gpu: bool


@dataclass
class Broken(Said):
    """In the place of `Ready`: why torch, or our own code, cannot be imported."""

    type: ClassVar[str] = "broken"
    message: str


@dataclass
class Stacks(Said):
    """A sample of the stacks of all threads of a child, asked for while it runs."""

    type: ClassVar[str] = "stacks"
    text: str


@dataclass
class End:
    """The zygote's word on how a task ended. ``stacks``: of all threads, where it died by a signal."""

    exit: int | None
    signal: int | None
    timed_out: bool
    seconds: float
    log: str
    stacks: str = ""
