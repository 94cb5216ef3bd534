"""Limits of a job's time that stand inside one another."""

from __future__ import annotations

import time

import pytest

from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import JOB_LATE_SECONDS


def test_a_reserve_within_a_reserve_leaves_the_outer_one() -> None:
    clock = Clock(1000)
    with clock.reserving(lambda: 200):
        with clock.reserving(lambda: 50):
            assert clock.spare == pytest.approx(800, abs=5)
        with clock.reserving(lambda: 220):
            assert clock.spare == pytest.approx(780, abs=5)
        assert clock.spare == pytest.approx(800, abs=5)
    assert clock.spare == pytest.approx(1000, abs=5)


def test_what_is_held_back_is_what_things_take_by_then() -> None:
    """At most three quarters of what was left at the beginning, or what is asked for; however little there was."""
    clock = Clock(1000)
    needed = [100.0]
    with clock.reserving(lambda: needed[0]):
        assert clock.spare == pytest.approx(900, abs=5)
        needed[0] = 300.0
        assert clock.spare == pytest.approx(700, abs=5)
        needed[0] = 5000.0
        assert clock.spare == pytest.approx(250, abs=5)
    with clock.reserving(lambda: 5000.0, 0.9):
        assert clock.spare == pytest.approx(100, abs=5)


def test_a_job_is_over_a_little_later_than_its_budget() -> None:
    """So that runs that were started for as long as there was time end at their own limits, and say so."""
    clock = Clock(1000)
    for ago, is_over in ((999.0, False), (1000.5, False), (1000 + JOB_LATE_SECONDS, True)):
        clock._started = time.monotonic() - ago
        with clock.within(10), clock.undisturbed(3600):
            assert clock.is_over == is_over


def test_a_budget_may_have_begun_before() -> None:
    assert Clock(1000, time.monotonic() - 300).left == pytest.approx(700, abs=5)


def test_what_is_undisturbed_within_what_is_leaves_the_outer_time() -> None:
    clock = Clock(0)
    with clock.undisturbed(3600):
        with clock.undisturbed(0):
            assert clock.is_undisturbed
        assert clock.is_undisturbed
    assert not clock.is_undisturbed


def test_a_share_of_a_share_ends_with_the_first_of_them() -> None:
    clock = Clock(1000)
    with clock.within(100):
        with clock.within(500):
            assert clock.left == pytest.approx(100, abs=5)
        with clock.within(10):
            assert clock.left == pytest.approx(10, abs=5)
        assert clock.left == pytest.approx(100, abs=5)
    assert clock.left == pytest.approx(1000, abs=5)
