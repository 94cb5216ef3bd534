"""Compares a call on both sides: runs it in eager and compiled, and has the referee judge it; then its gradients in the same way.

All code that compares calls (survey, checked backend, trial, table of layers) does so here. It brings what runs its compiled code,
and the eager side if it has that already, and decides what a comparison means for it. Before it blames the compiler it asks
`steadiness` whether eager itself is deterministic there.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from ..failures import LOST, device_error
from . import referee
from .call import Call, GradientCall, Side, Unplayable
from .distance import other_zeros
from .known import Known
from .verdict import Verdict

Run = Callable[[Call], Side]
"""Runs compiled code in the place of a call's own function."""


class ComparisonStep(enum.Enum):
    """The steps of a comparison, in order."""

    EAGER = "eager"
    COMPILED = "compiled"
    COMPARE = "compare"


Begins = Callable[[Call, ComparisonStep], None]
"""Called before each step, so that a process that dies in it can be told where."""


@dataclass(frozen=True)
class Judged:
    """A call that ran on both sides, with the referee's verdict."""

    call: Call
    expected: Side
    actual: Side
    verdict: Verdict

    @property
    def has_other_zeros(self) -> bool:
        """Whether a zero among the results, or the inputs after the call, has another sign than eager's."""
        expected, actual = self.expected.places(), self.actual.places()
        return any(other_zeros(tensor, actual[where]) for where, tensor in expected.items() if where in actual)


@dataclass(frozen=True)
class Raised:
    """A comparison that ended with an exception. At `ComparisonStep.COMPARE` it is of our own code: the two sides cannot be compared."""

    call: Call
    step: ComparisonStep
    error: Exception


@dataclass(frozen=True)
class Compared:
    """The comparison of a call's values, and that of its gradients; None if they were not asked for, or the values are wrong."""

    values: Judged | Raised
    gradients: Judged | Raised | None

    @property
    def decisive(self) -> Judged | Raised:
        """The comparison that decides: that of the gradients, unless eager cannot compute them.

        Right gradients do not clear a suspect output, or one with another memory layout.
        """
        if isinstance(self.gradients, Raised):
            is_impossible = self.gradients.step is ComparisonStep.EAGER and device_error(self.gradients.error) != LOST
            return self.values if is_impossible else self.gradients
        if self.gradients is None or isinstance(self.values, Raised):
            return self.values
        is_open = self.values.verdict.discrete or self.values.verdict.fault
        return self.values if is_open and not self.gradients.verdict.fault else self.gradients


def compare_call(
    call: Call,
    compiled: Run,
    expected: Side | None = None,
    *,
    known: Known | None = None,
    begins: Begins = lambda call, step: None,
) -> Judged | Raised:
    """Run a call on both sides and judge it. ``expected``: eager's side, if it has run. ``known``: see `referee.judge`."""
    if expected is None:
        begins(call, ComparisonStep.EAGER)
        try:
            expected = call.run(call.function)
        except Exception as error:
            return Raised(call, ComparisonStep.EAGER, error)
    begins(call, ComparisonStep.COMPILED)
    try:
        actual = compiled(call)
    except Exception as error:
        return Raised(call, ComparisonStep.COMPARE if isinstance(error, Unplayable) else ComparisonStep.COMPILED, error)
    begins(call, ComparisonStep.COMPARE)
    try:
        return Judged(call, expected, actual, referee.judge(call, expected, actual, known))
    except Exception as error:  # a program need not run under one of our modes
        return Raised(call, ComparisonStep.COMPARE, error)


def compare_with_gradients(
    call: Call,
    compiled: Run,
    expected: Side,
    behind: GradientCall | None,
    *,
    begins: Begins = lambda call, step: None,
) -> Compared:
    """Compare a call, and unless its values are wrong its gradients too. ``behind``: the call with its backward; None: it has none."""
    values = compare_call(call, compiled, expected, begins=begins)
    if behind is None or isinstance(values, Raised) or values.verdict.is_wrong:
        return Compared(values, None)
    return Compared(values, compare_call(behind, compiled, begins=begins))
