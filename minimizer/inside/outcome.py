"""`Outcome`: the answer of a task that runs a program or a script once."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .failures import ExceptionInfo, describe, raised_while_compiling
from .wire import Message, Said


class Ending(str, enum.Enum):
    """How a trial ended. The torch-free side has the same members, and more for a process that died."""

    SAME = "same"
    """Compiled and eager agree; for a script: it ended without an error."""
    DIFFERENT = "different"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    MISSING_ERROR = "missing_error"
    """Eager raises and compiled code does not."""
    SETUP_ERROR = "setup_error"
    """The program cannot be built, or the referee cannot judge it."""
    EAGER_ERROR = "eager_error"
    """Eager raises, and compiled code raises too or was not run."""
    NONDETERMINISTIC = "nondeterministic"
    """Eager differs from eager."""


@dataclass
class Outcome(Said):
    """The result of a trial: its ending and the data for it."""

    type: ClassVar[str] = "outcome"
    ending: Ending
    exception: ExceptionInfo | None = None
    verdict: Any = None
    """A `referee.verdict.Verdict`."""
    ops: list[str] = field(default_factory=list)
    """aten packet names, in order."""
    placed: list[Any] = field(default_factory=list)
    """For an observed script: its operators with their places, see `compiler.operators.Call`."""
    calls: int = 0
    unusual: list[str] = field(default_factory=list)
    graph_breaks: list[str] = field(default_factory=list)
    broken: list[Any] = field(default_factory=list)
    """For a measured script: its graph breaks, as ``messages.Break``."""
    recompiled: list[Any] = field(default_factory=list)
    """For a measured script: its recompiles, as ``messages.Recompile``."""
    graphs: int = 0
    """For a measured script: the number of graphs that Dynamo passed to a backend."""
    attempted: bool = True
    """For a script: whether Dynamo got a frame to compile."""
    saved: int = 0
    """For a script, if requested: the bytes that autograd saved for backwards."""
    draws: bool = False
    """For a script: whether it advanced or set a global random generator."""
    writes: list[int] = field(default_factory=list)
    """Positions of the inputs that the eager function mutates."""
    differentiated: dict[str, str] = field(default_factory=dict)
    """Dtypes, by place, of the outputs that a backward starts from."""
    layer: int | None = None
    """Index of the layer in a table of layers; -1 for the graph's own outputs."""
    part: str = ""
    figures: Message | None = None
    cost: Message | None = None
    """The cost of a program on both sides."""
    apart: Message | None = None
    """The figure in which the random numbers of both sides are apart, see `referee.distributions.Apart`."""
    values: dict[str, str] = field(default_factory=dict)
    """Answers as text, by the queried expression or operator."""
    exact: Message | None = None
    """The looks of an exact run."""
    trace: Message | None = None
    """The program around compiled graphs."""
    sides: Message | None = None
    """For a program run side by side: where eager and compiled part."""
    curve: Message | None = None
    """The losses of a script."""
    errors: list[Message] = field(default_factory=list)
    """Biased results of a script's graphs."""
    examined: Message | None = None
    """The extent of the search for biased results."""

    @classmethod
    def of_error(cls, ending: Ending, error: BaseException) -> Outcome:
        """An outcome with this ending, caused by an exception."""
        return cls(ending, exception=describe(error))

    @classmethod
    def raised(cls, error: BaseException) -> Outcome:
        """The outcome for an exception of the compiler (``compile_error``) or of compiled code (``runtime_error``)."""
        is_compiling = raised_while_compiling(error)
        return cls.of_error(Ending.COMPILE_ERROR if is_compiling else Ending.RUNTIME_ERROR, error)
