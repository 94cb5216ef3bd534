"""Limits of a job's time that stand inside one another."""

from __future__ import annotations

import pytest

from minimizer.engine.clock import Clock


def test_a_reserve_within_a_reserve_leaves_the_outer_one() -> None:
    clock = Clock(1000)
    with clock.reserving(200):
        with clock.reserving(50):
            assert clock.spare == pytest.approx(800, abs=5)
        with clock.reserving(220):
            assert clock.spare == pytest.approx(780, abs=5)
        assert clock.spare == pytest.approx(800, abs=5)
    assert clock.spare == pytest.approx(1000, abs=5)


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
