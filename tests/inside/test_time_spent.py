"""Time that blocks of code take together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from minimizer.inside import time_spent
from minimizer.inside.time_spent import TimeSpent


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A clock that goes on by one second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr(time_spent.time, "monotonic", lambda: float(next(ticks)))
    yield


def test_blocks_behind_each_other_add_up() -> None:
    spent = TimeSpent()
    for _ in range(2):
        with spent.timed():
            pass
    assert spent.seconds == 2


def test_time_of_a_block_within_a_block_counts_once() -> None:
    """A compared call may run compiled code whose calls are compared: together they take no longer than the outer one."""
    spent = TimeSpent()
    with spent.timed(), spent.timed():
        pass
    assert spent.seconds == 1


def test_time_that_two_threads_share_counts_once() -> None:
    """Blocks that begin in one order and end in the same: the second one is still open when the first one ends."""
    spent = TimeSpent()
    first, second = spent.timed(), spent.timed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spent.seconds == 0, "a block is open still"
    second.__exit__(None, None, None)
    assert spent.seconds == 1


def test_time_counts_where_a_block_raises() -> None:
    spent = TimeSpent()
    with pytest.raises(KeyError), spent.timed():
        raise KeyError
    with spent.timed():
        pass
    assert spent.seconds == 2
