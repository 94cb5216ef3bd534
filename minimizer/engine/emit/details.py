"""What the judge found about a failure, as far as a repro can use it."""

from __future__ import annotations

from typing import Literal, TypedDict


class Details(TypedDict, total=False):
    """Every key may be absent; inputs go by their names in the program."""

    rtol: float
    atol: float
    disputed: str
    """Why the difference may be no fault, as a sentence: only the script's own tolerance calls it one."""
    comparable: Literal["tensor", "values"]
    """For wrong values: eager's hold no NaN, and nothing else is wrong. They are one tensor, or any number of values."""
    aspect: str
    """For wrong metadata: ``dtype``, ``shape``, ``stride``, ``requires_grad``, ``layout``, ``device``, ``class`` or ``aliasing``."""
    output: str
    """Where in what the function returns it is: ``[0][1]``, or nothing for the whole."""
    input: str
    """The input that has it after the call, where that is no output."""
    alias_of: str
    """The input that it shares memory with on one side only."""
    alias_of_output: str
    """The same of an output, written as ``output`` is."""
    mutated: list[str]
    """Inputs that differ after the call."""
    writes: list[str]
    """Inputs that the function was seen to change: both sides then need some of their own."""
    gradients: list[str]
    """Inputs whose gradient is wrong; all that require one if absent."""
    unused: bool
    """Whether one of those gradients is None on one side."""
    differentiated: dict[str, str]
    """The dtypes of the tensors that a backward starts from, by where they are in what the function returns."""
    backward: bool
    """Whether the error, crash or hang comes in the backward."""
    said: str
    """What the exception says that reaches the caller: its type and its message."""
    signal: str
    """``SIGSEGV``, ``SIGABRT``, ..."""
    hang_after: float
    """Seconds after which a repro takes compilation for hung, where it is another number than `idioms.REPRO_SECONDS`."""
    stuck_in: str
    """The function that never returns, as a stack names it."""
    eager_error: str
    """For a missing error: the name of the exception type that eager raises."""
