"""How one trial ended: the answer of a task that runs a program or a script once."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .failures import ExceptionInfo, describe, raised_while_compiling
from .wire import Message, Said


class Ending(enum.StrEnum):
    """What a trial came to. The torch-free side has the same words, and some of its own for a process that died."""

    SAME = "same"
    """Compiled as eager; of a script: it ended well."""
    DIFFERENT = "different"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    MISSING_ERROR = "missing_error"
    """Eager raises, and compiled code does not."""
    SETUP_ERROR = "setup_error"
    """The program cannot be made, or not be judged."""
    EAGER_ERROR = "eager_error"
    """Eager raises, and so does compiled code or it was not asked."""
    NONDETERMINISTIC = "nondeterministic"
    """Eager differs from eager."""


@dataclass
class Outcome(Said):
    """The last message of a trial: an ending and what belongs to it."""

    type: ClassVar[str] = "outcome"
    ending: Ending
    exception: ExceptionInfo | None = None
    verdict: Any = None
    """A `referee.Verdict`."""
    ops: list[str] = field(default_factory=list)
    """aten packet names, in order."""
    calls: int = 0
    unusual: list[str] = field(default_factory=list)
    graph_breaks: list[str] = field(default_factory=list)
    attempted: bool = True
    """Of a script: whether Dynamo was given a frame to compile."""
    writes: list[int] = field(default_factory=list)
    """The inputs that eager's function changes, by position."""
    differentiated: dict[str, str] = field(default_factory=dict)
    """The outputs that a backward starts from, by place, with their dtypes."""
    layer: int | None = None
    """In a table of layers: which one; -1 for what the graph returns."""
    part: str = ""
    figures: Message | None = None
    values: dict[str, str] = field(default_factory=dict)
    """Answers by what was asked for."""
    exact: Message | None = None
    """Of an exact run: what the script could see of itself."""

    @classmethod
    def of_error(cls, ending: Ending, error: BaseException) -> Outcome:
        """An ending by an exception."""
        return cls(ending, exception=describe(error))

    @classmethod
    def raised(cls, error: BaseException) -> Outcome:
        """What compiled code raised, or its compiler."""
        is_compiling = raised_while_compiling(error)
        return cls.of_error(Ending.COMPILE_ERROR if is_compiling else Ending.RUNTIME_ERROR, error)
