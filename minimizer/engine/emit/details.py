"""The details of a comparison that a repro can use."""

from __future__ import annotations

from typing import Literal, TypedDict


class Details(TypedDict, total=False):
    """Details of a failure; every key may be absent, and inputs go by their names in the program."""

    rtol: float
    atol: float
    disputed: str
    """Why the difference may be no fault, as a sentence: only the script's own tolerance calls it one."""
    comparable: Literal["tensor", "values"]
    """For wrong values: one tensor, or several values; absent if eager's contain NaN or something else differs."""
    aspect: str
    """For wrong metadata: ``dtype``, ``shape``, ``stride``, ``requires_grad``, ``layout``, ``device``, ``class``,
    ``aliasing`` or ``identity`` (outputs that are one object)."""
    output: str
    """The index path of the wrong output: ``[0][1]``, or empty for the whole."""
    input: str
    """The input with wrong metadata after the call, if it is not an output."""
    alias_of: str
    """The input that the output or input shares memory with on one side only."""
    alias_of_output: str
    """The output that it shares memory with, or is one object with, on one side only, written like ``output``."""
    mutated: list[str]
    """Inputs that differ after the call."""
    writes: list[str]
    """Inputs that the function mutates, so that each side needs its own."""
    gradients: list[str]
    """Inputs whose gradient is wrong; all that require one if absent."""
    unused: bool
    """Whether one of those gradients is None on one side."""
    differentiated: dict[str, str]
    """The dtypes of the outputs that a backward starts from, by index path."""
    backward: bool
    """Whether the error, crash or hang happens in the backward."""
    said: str
    """Type and message of the exception that reaches the caller."""
    signal: str
    """``SIGSEGV``, ``SIGABRT``, ..."""
    overwrites: bool
    """Whether it dies of overwritten memory, by varying signals."""
    hang_after: float
    """Seconds of compilation that count as a hang, if other than `idioms.REPRO_SECONDS`."""
    stuck_in: str
    """The function that never returns, as named in a stack."""
    times: float
    """For a figure: the factor over the base cost from which compiled code shows the finding."""
    calls: int
    """For times of calls: the number timed together."""
    figure: str
    """For random numbers of another distribution: the figure that shows it, see `distribution_idiom.FIGURES`."""
    apart: float
    """The difference of that figure's averages that counts as a fault."""
    eager_error: str
    """For a missing error: the name of the exception type that eager raises."""
