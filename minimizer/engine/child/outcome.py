"""How a trial ended, as the child says it: the exception, the verdict on values, the ending (``inside/outcome.py`` has the same words)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

from pydantic import Field

from minimizer.engine.child.bounded import Line, Long, Loose, Number, Text
from minimizer.engine.child.exact_log import ExactLog

GENERATED = re.compile(r"c[a-z0-9]{50,}\.py")
"""Files that inductor writes."""
OUT_OF_MEMORY = "out_of_memory"


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
