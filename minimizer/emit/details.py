"""What the judge found about a failure, as far as a repro can use it."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import TypedDict

from minimizer.program import Program
from minimizer.protocol import Difference, Outcome

_SIGNALS = {member.value: member.name for member in signal.Signals}


class Details(TypedDict, total=False):
    """Every key may be absent; inputs go by their names in the program."""

    rtol: float
    atol: float
    aspect: str
    """For wrong metadata: ``dtype``, ``shape``, ``stride``, ``requires_grad`` or ``aliasing``."""
    output: int
    """Which output has it."""
    alias_of: str
    """The input that the output shares memory with on one side only."""
    mutated: list[str]
    """Inputs that differ after the call."""
    gradients: list[str]
    """Inputs whose gradient is wrong; all that require one if absent."""
    backward: bool
    """Whether the error, crash or hang comes in the backward."""
    signal: str
    """``SIGSEGV``, ``SIGABRT``, ..."""
    hang_after: float
    eager_error: str
    """For a missing error: the name of the exception type that eager raises."""
    compiled_error: str
    """The one that compiled raises in its place; absent if it returns."""


def details_of(outcome: Outcome, program: Program, tolerance: Mapping[str, float] | None = None) -> Details:
    """Read the details off the last trial of a program. ``tolerance`` is that of the script's own check, if it has one."""
    details: Details = {}
    if outcome.phase == "backward":
        details["backward"] = True
    if outcome.signal in _SIGNALS:
        details["signal"] = _SIGNALS[outcome.signal]
    if outcome.outcome == "missing_error" and outcome.exception is not None:
        details["eager_error"] = outcome.exception.type
    if outcome.verdict is not None:
        if tolerance is not None:
            details["rtol"], details["atol"] = tolerance.get("rtol", 0.0), tolerance.get("atol", 0.0)
        elif outcome.verdict.rule.startswith("exact"):
            details["rtol"] = details["atol"] = 0.0
        for difference in outcome.verdict.differences:
            _add(details, difference, program)
    return details


def _add(details: Details, difference: Difference, program: Program) -> None:
    place = re.match(r"(output|input|grad)(?:\[(\d+)\])?", difference.where)
    if place is None:
        return
    index = int(place[2] or 0)
    sources = [i.name for i in program.inputs]
    differentiable = [i.name for i in program.inputs if i.meta is not None and i.meta.requires_grad]
    if difference.kind == "wrong_metadata":
        if "aspect" not in details and place[1] == "output":
            details["aspect"], details["output"] = difference.what, index
            shared = re.search(r"input\[(\d+)\]", f"{difference.expected} {difference.actual}")
            if shared and int(shared[1]) < len(sources):
                details["alias_of"] = sources[int(shared[1])]
    elif place[1] == "input" and index < len(sources):
        _insert(details.setdefault("mutated", []), sources[index])
    elif place[1] == "grad" and index < len(differentiable):
        _insert(details.setdefault("gradients", []), differentiable[index])


def _insert(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)
