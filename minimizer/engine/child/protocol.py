"""What may come back from the sandboxed child: untrusted data, bounded and validated here and never unpickled."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from minimizer.engine.child.exact_log import ExactLog
from minimizer.errors import ChildFailed

MAX_LINE = 64 << 20
"""Longest message, in bytes, that is read from the child."""
MAX_NODES = 20_000
"""Of one graph, the bodies of its operators included, and as many inputs and outputs: what takes it apart has passes over all of it."""
MAX_CALLS = MAX_GRAPHS = 200_000
MAX_MODULES = 64
"""How deep in the tree of modules a node may lie: a path is cut there."""
GENERATED = re.compile(r"c[a-z0-9]{50,}\.py")
"""Files that inductor writes."""
OUT_OF_MEMORY = "out_of_memory"

Model = TypeVar("Model", bound="Loose")

Text = Annotated[str, StringConstraints(max_length=20_000)]
Name = Annotated[str, StringConstraints(max_length=1000)]
Long = Annotated[str, StringConstraints(max_length=300_000)]
"""A stack, or the stacks of all threads."""
Line = tuple[Name, Annotated[int, Field(ge=0, le=10**9)], Name]
"""File, number and text."""
Count = Annotated[int, Field(ge=0, le=10**12)]
Number = float | None


class Loose(BaseModel):
    """Fields we do not know are dropped: the child may be newer, or hostile."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=True)


class ExceptionInfo(Loose):
    """An exception and the one at its root; frames are (file, function, line text), innermost last."""

    type: Text
    message: Text
    root_type: Text
    root_message: Text
    frames: list[tuple[Text, Text, Text]] = Field(default_factory=list, max_length=50)
    stack: Long = ""
    """All frames that led to it, as Python writes tracebacks (``inside/stack.py``)."""
    source: Line | None = None
    """The innermost line of the user's own code that led to it."""
    library: Line | None = None
    """The innermost line of a library that this one calls, where it is one."""
    device: Literal["", "out_of_memory", "context_lost"] = ""
    """What it says of the GPU: it was full, or its process can use it no more (``inside/failures.py``)."""

    @property
    def is_of_torch(self) -> bool:
        """Whether torch raised it, or code that inductor wrote; ``torch.testing`` speaks for the script."""
        file = self.frames[-1][0] if self.frames else ""
        is_testing = file.startswith("torch/testing/")
        return (file.startswith("torch/") and not is_testing) or GENERATED.fullmatch(file) is not None


class Difference(Loose):
    """One way in which two results differ at one place."""

    where: Text = ""
    kind: Literal["wrong_output", "wrong_gradient", "wrong_metadata"] = "wrong_output"
    what: Text = "value"
    max_abs: Number = None
    max_rel: Number = None
    mismatched: int | None = None
    elements: int | None = None
    required_atol: Number = None
    required_rtol: Number = None
    expected: Text = ""
    actual: Text = ""


class Verdict(Loose):
    """What the judge says of one comparison."""

    fault: bool = False
    kind: Literal["wrong_output", "wrong_gradient", "wrong_metadata"] | None = None
    rule: Text = ""
    discrete: bool = False
    nondeterministic: bool = False
    compiled_error: Number = None
    eager_error: Number = None
    differences: list[Difference] = Field(default_factory=list, max_length=10_000)
    note: Text = ""
    equals_itself: bool = False
    """Of a fault: whether eager's values are known to equal themselves. NaN does not."""

    @property
    def is_layout_only(self) -> bool:
        """Whether the fault is one of memory layout: nothing but strides differs."""
        return self.fault and bool(self.differences) and all(d.what == "stride" for d in self.differences)


class NonFinite(Loose):
    """The first element that is NaN or infinite, and on which side."""

    side: Literal["eager", "compiled", "both"]
    what: Literal["nan", "inf"]
    index: list[int] = Field(default_factory=list, max_length=64)


class Figures(Loose):
    """How far a layer is off, fault or not; None where no number says it."""

    max_abs: Number = None
    required_atol: Number = None
    required_rtol: Number = None
    compiled_vs_fp64: Number = None
    eager_vs_fp64: Number = None
    cosine: Number = None
    nonfinite: NonFinite | None = None


class Ending(StrEnum):
    """What one trial came to, in the child's words (``inside/outcome.py``) and three of our own."""

    SAME = "same"
    DIFFERENT = "different"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    MISSING_ERROR = "missing_error"
    SETUP_ERROR = "setup_error"
    EAGER_ERROR = "eager_error"
    NONDETERMINISTIC = "nondeterministic"
    CRASH = "crash"
    """The process died of a signal."""
    TIMEOUT = "timeout"
    """It was ended for taking too long."""
    LOST = "lost"
    """It ended without an answer, or with one that says nothing of the program."""


class Outcome(Loose):
    """How one trial ended."""

    ending: Ending
    exception: ExceptionInfo | None = None
    verdict: Verdict | None = None
    ops: list[Text] = Field(default_factory=list, max_length=10_000)
    calls: int = 0
    unusual: list[Text] = Field(default_factory=list, max_length=100)
    graph_breaks: list[Text] = Field(default_factory=list, max_length=100)
    attempted: bool = True
    """Of a script: whether Dynamo was given a frame to compile."""
    writes: list[int] = Field(default_factory=list, max_length=10_000)
    """The inputs that eager's function changes, by position."""
    differentiated: dict[Text, Text] = Field(default_factory=dict, max_length=100)
    """The outputs that a backward starts from, by place, with their dtypes."""
    layer: int | None = None
    """In a table of layers: which one; -1 for what the graph returns."""
    part: Text = ""
    figures: Figures | None = None
    parts: dict[Text, bool] = Field(default_factory=dict, max_length=10_000)
    """Of a trial with switches: the parts of the compiler that were asked for, and whether they made a difference."""
    values: dict[Text, Text] = Field(default_factory=dict, max_length=1000)
    exact: ExactLog | None = None
    """Of an exact run: what the script could see of itself."""
    signal: int | None = None
    phase: Text = ""
    seconds: float = 0.0
    log: str = ""
    stacks: Long = ""
    """Of all threads, where it died by a signal or hung; filled in by us."""
    places: list[Text] = Field(default_factory=list, max_length=1000)
    """The calls it was inside of when it was given up, outermost first; filled in by us."""

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the GPU was full: that says nothing of the program while others hold memory too."""
        return self.exception is not None and self.exception.device == OUT_OF_MEMORY


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


def parse(model: type[Model], data: Any) -> Model:
    """Validate a message.

    Raises:
        ChildFailed: it is not what was agreed.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ChildFailed(f"the child sent a malformed {model.__name__}: {error.errors()[0]['msg']}") from None
