"""A process that ends without an answer parts the sides only where compiled code has killed it."""

from __future__ import annotations

import signal

import pytest

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.child.traced import Distance, Parting, Sides
from minimizer.engine.outer.runs import sides_of
from minimizer.errors import ChildFailed


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


@pytest.mark.parametrize(
    "sides",
    [
        Sides(first=Parting(event=5, own=True, what="x")),
        Sides(checked=Parting(event=7, own=True, what="x")),
        Sides(distances=[Distance(event=5)]),
        Sides(first=Parting(event=2, own=True, what="x", zeros_of=9)),
        Sides(first=Parting(event=2, own=True, what="x", zeros_of=3)),
        Sides(first=Parting(event=2, own=True, what="x", zeros_of=0)),
    ],
    ids=["first", "checked", "distance", "zeros of no event", "zeros of a later one", "zeros of no call"],
)
def test_a_parting_at_what_is_no_event_of_the_program_is_refused(sides: Sides) -> None:
    with pytest.raises(ChildFailed):
        sides_of(Outcome(ending=Ending.DIFFERENT, sides=sides), 5, {1, 3})


def test_a_parting_at_an_event_is_taken() -> None:
    sides = Sides(first=Parting(event=4, own=True, what="x", zeros_of=3), distances=[Distance(event=3)])
    assert sides_of(Outcome(ending=Ending.DIFFERENT, sides=sides), 5, {1, 3}) is sides
