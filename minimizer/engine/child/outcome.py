"""The outcome of a trial as the child reports it: ending, exception, verdict on values (see ``inside/outcome.py``)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from minimizer.engine.child.bounded import Amount, Count, Line, Long, Loose, Number, Text
from minimizer.engine.child.compilations import Break, Recompile
from minimizer.engine.child.curves import Curve, Examined, SignedError
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.traced import Sides, Traced
from minimizer.engine.child.trouble import Death, Fault, Rule, is_starved_compiler, rule_for
from minimizer.vocabulary import Kind

GENERATED = re.compile(r"c[a-z0-9]{50,}\.py")
"""Names of the Python files that inductor generates."""
LAST_WORDS = 2000
"""Characters from the end of the output of a trial that died, which may say why."""


def _numeric(kind: Kind) -> Kind:
    if not kind.is_numeric:
        raise ValueError(f"{kind} is no difference of two results")
    return kind


NumericKind = Annotated[Kind, AfterValidator(_numeric)]
"""The kind of a difference of two results; a child may name no other."""


class ExceptionInfo(Loose):
    """An exception and its root cause; frames are (file, function, line text), innermost last."""

    type: Text
    message: Text
    root_type: Text
    root_message: Text
    frames: list[tuple[Text, Text, Text]] = Field(default_factory=list, max_length=50)
    stack: Long = ""
    """All frames that led to it, in the format of a Python traceback (``inside/stack.py``)."""
    source: Line | None = None
    """The innermost line of the user's own code that led to it."""
    library: Line | None = None
    """The innermost line of library code that ``source`` calls, if it calls a library."""
    device: Literal["", "out_of_memory", "context_lost"] = ""
    """A GPU that is out of memory, or lost to this process (``inside/failures.py``); empty for other errors."""

    @property
    def said(self) -> str:
        """The line that a traceback ends with: the class without its module, and the message."""
        return f"{self.type.rpartition('.')[2]}: {self.message}"

    @property
    def is_of_starved_compiler(self) -> bool:
        """Whether Inductor's C++ compiler ran out of memory, which is no compile error of the script."""
        return is_starved_compiler(f"{self.root_type} {self.message}\n{self.root_message}")

    @property
    def is_of_torch(self) -> bool:
        """Whether torch or inductor's generated code raised it; ``torch.testing`` counts as the script's own check."""
        file = self.frames[-1][0] if self.frames else ""
        is_testing = file.startswith("torch/testing/")
        return (file.startswith("torch/") and not is_testing) or GENERATED.fullmatch(file) is not None


class Difference(Loose):
    """One way in which two results differ at one place."""

    where: Text = ""
    kind: NumericKind = Kind.WRONG_OUTPUT
    what: Text = "value"
    max_abs: Number = None
    max_rel: Number = None
    mismatched: int | None = None
    elements: int | None = None
    required_atol: Number = None
    required_rtol: Number = None
    rtol: Number = None
    """Of a fault that ``assert_close`` would let pass: the relative tolerance beside which `required_atol` stands."""
    expected: Text = ""
    actual: Text = ""


class Verdict(Loose):
    """The referee's verdict on one comparison."""

    fault: bool = False
    kind: NumericKind | None = None
    rule: Text = ""
    discrete: bool = False
    nondeterministic: bool = False
    compiled_error: Number = None
    eager_error: Number = None
    differences: list[Difference] = Field(default_factory=list, max_length=10_000)
    note: Text = ""
    mechanism: Literal["", "dropped_cast", "other_precision"] = ""
    """How the fault came about, where the referee knows."""
    other_zeros: bool = False
    """Whether zeros of the two sides have other signs, which counts for nothing where it ends, and may for what follows."""
    equals_itself: bool = False
    """For a fault: whether eager's values are known to equal themselves, which NaN does not."""

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
    """The error of a layer, fault or not; None for a figure that does not apply."""

    max_abs: Number = None
    required_atol: Number = None
    required_rtol: Number = None
    compiled_vs_fp64: Number = None
    eager_vs_fp64: Number = None
    cosine: Number = None
    nonfinite: NonFinite | None = None


class Cost(Loose):
    """What a program costs compiled, and what that is to be compared with: in seconds or bytes."""

    base: Amount
    compiled: Amount


class Ending(StrEnum):
    """The ending of a trial: the child's own values (``inside/outcome.py``), and three that we assign."""

    SAME = "same"
    DIFFERENT = "different"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    MISSING_ERROR = "missing_error"
    SETUP_ERROR = "setup_error"
    EAGER_ERROR = "eager_error"
    NONDETERMINISTIC = "nondeterministic"
    CRASH = "crash"
    """The process died by a signal."""
    TIMEOUT = "timeout"
    """It was ended for taking too long."""
    LOST = "lost"
    """It ended without an answer, or with one that says nothing about the program."""


class PlacedOperator(Loose):
    """An operator, the line of the script that calls it (0 where none does), and the module in which that happens."""

    op: Text
    line: int = 0
    module: Text = ""


class Outcome(Loose):
    """The outcome of one compilation of a trial, or of a whole run of a script."""

    ending: Ending
    exception: ExceptionInfo | None = None
    verdict: Verdict | None = None
    ops: list[Text] = Field(default_factory=list, max_length=10_000)
    placed: list[PlacedOperator] = Field(default_factory=list, max_length=10_000)
    """For an observed script: its operators with their places."""
    calls: int = 0
    unusual: list[Text] = Field(default_factory=list, max_length=100)
    graph_breaks: list[Text] = Field(default_factory=list, max_length=100)
    broken: list[Break] = Field(default_factory=list, max_length=100)
    recompiled: list[Recompile] = Field(default_factory=list, max_length=500)
    graphs: Count = 0
    """For a measured script: its graph breaks, its recompiles, and the number of its graphs."""
    attempted: bool = True
    """For a script: whether Dynamo was given a frame to compile."""
    saved: Count = 0
    """For a script that is asked for it: the bytes that autograd saved for backwards."""
    draws: bool = False
    """For a script: whether it has moved a global random generator, by drawing or by setting it."""
    writes: list[int] = Field(default_factory=list, max_length=10_000)
    """Positions of the inputs that the function mutates in eager."""
    differentiated: dict[Text, Text] = Field(default_factory=dict, max_length=100)
    """The dtypes of the outputs that a backward starts from, by place."""
    layer: int | None = None
    """In a table of layers: the layer's index; -1 for the outputs of the graph."""
    part: Text = ""
    figures: Figures | None = None
    cost: Cost | None = None
    """For a trial that measures: what both sides cost."""
    parts: dict[Text, bool] = Field(default_factory=dict, max_length=10_000)
    """For a trial with switches: the parts of the compiler that were asked for, and whether each made a difference."""
    values: dict[Text, Text] = Field(default_factory=dict, max_length=1000)
    exact: ExactLog | None = None
    """For an exact run: all that the script could see of itself."""
    trace: Traced | None = None
    """For a trace: the program around the compiled graphs."""
    sides: Sides | None = None
    """For a program that was run side by side: where the two part."""
    curve: Curve | None = None
    """For a run that notes the loss: the losses."""
    errors: list[SignedError] = Field(default_factory=list, max_length=1000)
    """For graphs that were run again in double precision: results that are off to one side."""
    examined: Examined | None = None
    """How far the search for these came; None if it did not end."""
    signal: int | None = None
    phase: Text = ""
    seconds: float = 0.0
    log: str = ""
    stacks: Long = ""
    """The stacks of all threads, if it died by a signal or hung; filled in on our side."""
    places: list[Text] = Field(default_factory=list, max_length=1000)
    """The frames on the stack when a hang was ended, outermost first; filled in on our side."""

    @property
    def is_layout_only(self) -> bool:
        """Whether it fails, and nothing but memory layout differs."""
        return self.verdict is not None and self.verdict.is_layout_only

    @property
    def judged(self) -> Outcome:
        """This outcome; ``lost`` if its end is laid to the machine."""
        return self.model_copy(update={"ending": Ending.LOST}) if self.rule.fault is Fault.MACHINE else self

    @property
    def rule(self) -> Rule:
        """The rule by which its end is laid to the program, to the machine or to nobody."""
        said = f"{self.exception.message}\n{self.exception.root_message}" if self.exception is not None else ""
        has_died = self.ending in (Ending.CRASH, Ending.LOST)
        return rule_for(
            Death(
                signal=self.signal,
                said=said + self.log[-LAST_WORDS:] * has_died,
                gpu=self.exception.device if self.exception is not None else "",
                is_by_us=self.ending is Ending.TIMEOUT,
                is_silent=self.ending is Ending.LOST,
            )
        )
