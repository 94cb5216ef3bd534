"""A process that ends without an answer parts the sides only where compiled code has killed it."""

from __future__ import annotations

import signal

import pytest

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.outer.runs import sides_of


def test_a_death_of_the_compiled_side_is_where_they_part() -> None:
    sides = sides_of(Outcome(ending=Ending.CRASH, signal=signal.SIGSEGV, phase="event 2 compiled"), 5)

    assert sides is not None
    assert sides.first is not None
    assert (sides.first.event, sides.first.what, sides.ran) == (2, "the process died by signal 11", 2)


@pytest.mark.parametrize(
    ("ending", "number", "phase", "word"),
    [
        (Ending.TIMEOUT, None, "event 2 compiled", "in compiled code: it did not come back in time"),
        (Ending.CRASH, signal.SIGSEGV, "event 2 eager", "in eager: the process died by signal 11"),
        (Ending.CRASH, signal.SIGABRT, "event 2 compare", "in our comparison: the process died by signal 6"),
        (Ending.CRASH, signal.SIGKILL, "event 2 compiled", "the process died by signal 9"),
    ],
)
def test_any_other_end_says_only_where_it_stopped(ending: Ending, number: int | None, phase: str, word: str) -> None:
    sides = sides_of(Outcome(ending=ending, signal=number, phase=phase), 5)

    assert sides is not None
    assert (sides.first, sides.ran) == (None, 2)
    assert word in sides.stopped


@pytest.mark.parametrize(
    "phase", ["", "setup", "event \u00b2 compiled", "event 5 compiled", "event -1 compiled", "event"]
)
def test_a_phase_of_no_event_says_nothing(phase: str) -> None:
    assert sides_of(Outcome(ending=Ending.CRASH, signal=11, phase=phase), 5) is None
