"""Runs side by side, and one that must be alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from minimizer.engine.child.gate import Gate
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
