"""Runs side by side, and one that must be alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from minimizer.engine.child.gate import LITTLE_BYTES, Gate
from minimizer.errors import Cancelled


def nothing() -> None:
    """A watch that finds nothing."""


def stop() -> None:
    raise Cancelled("enough")


def test_many_are_inside_at_once() -> None:
    gate, both = Gate(), threading.Barrier(2, timeout=60)

    def run() -> None:
        with gate.beside(nothing):
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run), pool.submit(run)]:
            done.result()


def test_one_that_is_alone_waits_for_all_others_and_all_others_for_it() -> None:
    gate, order = Gate(), list[str]()
    first_is_in, alone_wants, alone_is_in, may_leave = (threading.Event() for _ in range(4))

    def first() -> None:
        with gate.beside(nothing):
            first_is_in.set()
            assert alone_wants.wait(60)
            order.append("first")

    def alone() -> None:
        assert first_is_in.wait(60)
        with gate.alone(alone_wants.set):  # asked while it waits
            order.append("alone in")
            alone_is_in.set()
            assert may_leave.wait(60)
            order.append("alone out")

    def late() -> None:
        assert alone_is_in.wait(60)
        with gate.beside(may_leave.set):
            order.append("late")

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(run) for run in (first, alone, late)]:
            done.result()
    assert order == ["first", "alone in", "alone out", "late"]


def test_who_is_stopped_while_waiting_holds_nobody_up() -> None:
    gate = Gate()
    with gate.beside(nothing):
        with pytest.raises(Cancelled), gate.alone(stop):
            pass
        with gate.beside(stop):  # not even asked
            pass
    with gate.alone(stop), pytest.raises(Cancelled), gate.beside(stop):
        pass
    with gate.alone(stop):
        pass


def test_what_fails_inside_leaves() -> None:
    gate = Gate()
    for way in (gate.alone, gate.beside):
        with pytest.raises(ValueError, match="inside"), way(stop):
            raise ValueError("inside")
    with gate.alone(stop):
        pass


@pytest.mark.parametrize("taken", [None, LITTLE_BYTES + 1], ids=["unknown", "much"])
def test_a_run_of_a_script_that_takes_much_memory_or_is_the_first_to_be_measured_waits_for_the_one_before(
    taken: int | None,
) -> None:
    gate, order = Gate(), list[str]()
    first_is_in, second_waits = threading.Event(), threading.Event()
    if taken is not None:
        gate.ended(taken)
        gate.ended(1)  # another one that took less

    def first() -> None:
        with gate.beside(nothing, is_script=True):
            first_is_in.set()
            assert second_waits.wait(60)
            with gate.beside(stop):  # a trial waits for neither
                order.append("first")

    def second() -> None:
        assert first_is_in.wait(60)
        with gate.beside(second_waits.set, is_script=True, is_measured=taken is None):
            order.append("second")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run) for run in (first, second)]:
            done.result()
    assert order == ["first", "second"]


def test_runs_of_a_script_that_takes_little_memory_go_side_by_side() -> None:
    gate = Gate()
    gate.ended(LITTLE_BYTES)
    with gate.beside(stop, is_script=True), gate.beside(stop, is_script=True):
        pass


def test_a_run_that_waits_begins_as_soon_as_one_has_shown_that_it_takes_little() -> None:
    gate = Gate()
    first = gate.beside(nothing, is_script=True, is_measured=True)
    with first, gate.beside(lambda: gate.ended(1), is_script=True, is_measured=True):
        pass


def test_where_none_has_been_measured_other_runs_of_a_script_do_not_wait() -> None:
    gate = Gate()
    with gate.beside(stop, is_script=True), gate.beside(stop, is_script=True):
        pass


def test_a_run_of_a_script_that_fails_leaves() -> None:
    gate = Gate()
    with pytest.raises(ValueError, match="inside"), gate.beside(stop, is_script=True):
        raise ValueError("inside")
    with gate.beside(stop, is_script=True):
        pass
