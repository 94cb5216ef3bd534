"""What may come back from the sandboxed child: untrusted data, bounded and validated here and never unpickled."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.program.arguments import decode, dotted, identifier
from minimizer.engine.program.model import Body, Input, Node, Program, TensorMeta
from minimizer.errors import ChildFailed

MAX_LINE = 64 << 20
"""Longest message, in bytes, that is read from the child."""
MAX_NODES = MAX_CALLS = 200_000
GENERATED = re.compile(r"c[a-z0-9]{50,}\.py")
"""Files that inductor writes."""
OUT_OF_MEMORY = "out_of_memory"

Model = TypeVar("Model", bound="Loose")

Text = Annotated[str, StringConstraints(max_length=20_000)]
Name = Annotated[str, StringConstraints(max_length=1000)]
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


class Outcome(Loose):
    """How one trial ended. ``crash``, ``timeout`` and ``lost`` are the executor's own words, the others are the child's."""

    outcome: Literal[
        "same", "different", "compile_error", "runtime_error", "missing_error",
        "setup_error", "eager_error", "nondeterministic", "crash", "timeout", "lost",
    ]  # fmt: skip
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
    places: list[Text] = Field(default_factory=list, max_length=1000)
    """The calls it was inside of when it was given up, outermost first; filled in by us."""

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the GPU was full: that says nothing of the program while others hold memory too."""
        return self.exception is not None and self.exception.device == OUT_OF_MEMORY


class Health(Loose):
    """What Dynamo noted of a run, and how long a call takes, in seconds."""

    graph_breaks: list[Text] = Field(default_factory=list, max_length=100)
    recompiles: list[Text] = Field(default_factory=list, max_length=100)
    frames: list[Text] = Field(default_factory=list, max_length=100)
    failed: list[Text] = Field(default_factory=list, max_length=100)
    """Frames in which Dynamo met an error of its own, and the error."""
    compile_seconds: Number = None
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


class Seen(Loose):
    """A call whose difference did not stop the survey: a suspect, or one of memory layout alone.

    The difference of a suspect may be legal rounding made visible by a discrete operator.
    """

    graph: int
    call: int
    verdict: Verdict


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
    calls: list[GraphCalls] = Field(default_factory=list, max_length=MAX_NODES)
    health: Health | None = None
    uncompared: list[Uncompared] = Field(default_factory=list, max_length=100)
    suspects: list[Seen] = Field(default_factory=list, max_length=100)
    layouts: list[Seen] = Field(default_factory=list, max_length=100)
    """Of each graph the first call whose values are right and whose memory layout is another."""
    missing: list[Missing] = Field(default_factory=list, max_length=100)
    raised: list[ExceptionInfo] = Field(default_factory=list, max_length=100)
    checks: list[dict[Text, float]] = Field(default_factory=list, max_length=100)
    lost: Lost | None = None
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
    """The zygote's word on how a task ended."""

    exit: int | None = None
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


def parse_program(data: Any) -> Program:
    """Build a `Program` from the child's JSON; every name that will stand in source text is checked.

    Raises:
        ChildFailed: it is not what was agreed.
    """
    try:
        if len(data["nodes"]) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES:,} nodes")
        return Program(
            inputs=tuple(_input(item) for item in data["inputs"]),
            nodes=tuple(_node(item) for item in data["nodes"]),
            outputs=tuple(identifier(name) for name in data["outputs"]),
            level="aot" if data["level"] == "aot" else "dynamo",
            setup=tuple(str(line) for line in data["setup"]),
            bodies=tuple(_body(item) for item in data["functions"]),
            compile_kwargs=tuple((identifier(k), str(v)) for k, v in data["compile_kwargs"].items()),
            grad=bool(data["grad"]),
            marked=bool(data.get("marked", False)),
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ChildFailed(f"the child sent a malformed program: {type(error).__name__}: {str(error)[:500]}") from None


def _input(item: Any) -> Input:
    return Input(
        name=identifier(item["name"]),
        meta=_meta(item.get("meta")),
        golden=_moment(item["golden"]) if "golden" in item else None,
        code=str(item["code"]) if "code" in item else None,
    )


def _moment(golden: Any) -> str:
    """The name of a golden value, or ``name@node``: as it is just before that node runs."""
    name, at, node = str(golden).partition("@")
    return f"{identifier(name)}@{identifier(node)}" if at else identifier(golden)


def _node(item: Any) -> Node:
    source = item.get("source")
    return Node(
        name=identifier(item["name"]),
        target=dotted(item["target"]),
        args=tuple(decode(arg) for arg in item["args"]),
        kwargs=tuple((identifier(key), decode(value)) for key, value in item["kwargs"].items()),
        meta=_meta(item.get("meta")),
        module=str(item.get("module", ""))[:1000],
        module_class=str(item.get("module_class", ""))[:200],
        source=(str(source[0])[:1000], int(source[1]), str(source[2])[:1000]) if source else None,
        number=_number(item.get("number")),
    )


def _body(item: Any) -> Body:
    return Body(
        name=identifier(item["name"]),
        parameters=tuple(identifier(name) for name in item["parameters"]),
        nodes=tuple(_node(node) for node in item["nodes"]),
        result=decode(item["result"]),
    )


def _number(value: Any) -> bool | int | float | None:
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"not a number: {str(value)[:80]!r}")


def _meta(item: Any) -> TensorMeta | None:
    if item is None:
        return None
    return TensorMeta(
        shape=tuple(int(size) for size in item["shape"]),
        dtype=dotted(item["dtype"]),
        stride=tuple(int(step) for step in item["stride"]) if item["stride"] is not None else None,
        device=identifier(item["device"]),
        requires_grad=bool(item["requires_grad"]),
        symbolic=tuple(int(dim) for dim in item.get("symbolic", ())),
    )
