"""What the judge found about a failure, as far as a repro can use it."""

from __future__ import annotations

from typing import TypedDict


class Details(TypedDict, total=False):
    """Every key may be absent; inputs go by their names in the program."""

    rtol: float
    atol: float
    disputed: str
    """Why the difference may be no fault, as a sentence: only the script's own tolerance calls it one."""
    aspect: str
    """For wrong metadata: ``dtype``, ``shape``, ``stride``, ``requires_grad`` or ``aliasing``."""
    output: int
    """Which output has it."""
    alias_of: str
    """The input that the output shares memory with on one side only."""
    mutated: list[str]
    """Inputs that differ after the call."""
    writes: list[str]
    """Inputs that the function was seen to change: both sides then need some of their own."""
    gradients: list[str]
    """Inputs whose gradient is wrong; all that require one if absent."""
    unused: bool
    """Whether one of those gradients is None on one side."""
    backward: bool
    """Whether the error, crash or hang comes in the backward."""
    signal: str
    """``SIGSEGV``, ``SIGABRT``, ..."""
    hang_after: float
    stuck_in: str
    """The function that never returns, as a stack names it."""
    eager_error: str
    """For a missing error: the name of the exception type that eager raises."""
    """The one that compiled raises in its place; absent if it returns."""
