"""The outcome of a trial as reported by the child: ending, exception, verdict on values (see ``inside/outcome.py``)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, FiniteFloat

from minimizer.engine.child.bounded import Amount, Count, Line, Long, Loose, Number, Text
from minimizer.engine.child.compilations import Break, Recompile
from minimizer.engine.child.curves import Curve, Examined, SignedError
from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.traced import Sides, Traced
from minimizer.engine.child.trouble import AtFault, Death, EndRule, is_starved_compiler, rule_for
from minimizer.inside.rulings import Ruling, Unlike
from minimizer.vocabulary import Kind

GENERATED = re.compile(r"c[a-z0-9]{50,}\.py")
"""Matches the Python files that inductor generates."""
LAST_WORDS = 2000
"""Characters from the end of the output of a trial that died, which may name the cause."""


def _numeric(kind: Kind) -> Kind:
    if not kind.is_numeric:
        raise ValueError(f"{kind} is no difference of two results")
    return kind


NumericKind = Annotated[Kind, AfterValidator(_numeric)]
"""The kind of a difference of two results; a child may report no other."""


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
    """The state of a GPU that is out of memory, or lost to this process (``inside/failures.py``).

    Empty for other errors.
    """

    @property
    def said(self) -> str:
        """The last line of the traceback: the class without its module, and the message."""
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
    """For a fault that ``assert_close`` would pass: the relative tolerance that goes with `required_atol`."""
    expected: Text = ""
    actual: Text = ""
    unlike: Unlike | None = None
    """For another type: the first thing that differs."""
    expected_alias: Text = ""
    """The place with which eager's tensor shares its storage, or whose object it is; empty if it has its own."""
    actual_alias: Text = ""
    """The same of the compiled one."""


class Verdict(Loose):
    """The referee's verdict on one comparison."""

    fault: bool = False
    kind: NumericKind | None = None
    rule: Ruling = Ruling.EQUAL
    why: Text = ""
    """More on the rule, for people."""
    discrete: bool = False
    nondeterministic: bool = False
    compiled_error: Number = None
    eager_error: Number = None
    differences: list[Difference] = Field(default_factory=list, max_length=10_000)
    note: Text = ""
    mechanism: Literal["", "dropped_cast", "other_precision"] = ""
    """The mechanism of the fault, if the referee knows it."""
    other_zeros: bool = False
    """Whether signs of zeros differ: harmless in a final result, but not always in what follows from it."""
    equals_itself: bool = False
    """For a fault: whether eager's values are known to equal themselves, which NaN does not."""

    @property
    def is_layout_only(self) -> bool:
        """Whether only the memory layout is wrong: nothing but strides differs."""
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
    """The cost of a compiled program and its base for comparison, in seconds or bytes."""

    base: Amount
    compiled: Amount


class Apart(Loose):
    """A figure in which the random numbers of both sides are apart, see `inside.referee.distributions`."""

    figure: Literal["distinct", "zeros", "NaN", "mean", "square", "least", "largest", "neighbours"]
    eager: FiniteFloat
    compiled: FiniteFloat


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
    """It was killed at its timeout."""
    LOST = "lost"
    """It ended without an answer, or with one that proves nothing about the program."""


class PlacedOperator(Loose):
    """An operator, the line of the script that calls it (0 if none does), and the module of the call."""

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
    """For a script: whether Dynamo got a frame to compile."""
    saved: Count = 0
    """For a script, if requested: the bytes that autograd saved for backwards."""
    draws: bool = False
    """For a script: whether it advanced or set a global random generator."""
    writes: list[int] = Field(default_factory=list, max_length=10_000)
    """Positions of the inputs that the function mutates in eager."""
    differentiated: dict[Text, Text] = Field(default_factory=dict, max_length=100)
    """The dtypes of the outputs that a backward starts from, by place."""
    layer: int | None = None
    """In a table of layers: the layer's index; -1 for the outputs of the graph."""
    part: Text = ""
    figures: Figures | None = None
    cost: Cost | None = None
    """For a measuring trial: the cost of both sides."""
    apart: Apart | None = None
    """For a trial of random numbers: the figure in which both sides are apart; None if they are not."""
    parts: dict[Text, bool] = Field(default_factory=dict, max_length=10_000)
    """For a trial with switches: the queried parts of the compiler, and whether each made a difference."""
    values: dict[Text, Text] = Field(default_factory=dict, max_length=1000)
    exact: ExactLog | None = None
    """For an exact run: everything that the script could see of itself."""
    trace: Traced | None = None
    """For a trace: the program around the compiled graphs."""
    sides: Sides | None = None
    """For a program run side by side: where the two sides part."""
    curve: Curve | None = None
    """For a run that records losses: the losses."""
    errors: list[SignedError] = Field(default_factory=list, max_length=1000)
    """For graphs rerun in double precision: biased results."""
    examined: Examined | None = None
    """The extent of the search for biased results; None if it did not end."""
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
        """Whether it fails, and only memory layout differs."""
        return self.verdict is not None and self.verdict.is_layout_only

    @property
    def judged(self) -> Outcome:
        """This outcome, or ``lost`` if the machine is at fault."""
        return self.model_copy(update={"ending": Ending.LOST}) if self.rule.fault is AtFault.MACHINE else self

    @property
    def rule(self) -> EndRule:
        """The rule that attributes its end to the program, to the machine, or to neither."""
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
