"""A job whose budget is over is ended wherever it is, by a thread that waits for nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from minimizer.engine.child.warden import Warden
from minimizer.errors import BudgetExceeded


class Bounded:
    """A sandbox, and a disk, that have room for everything."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.times = 0

    def watch(self, stop: Callable[[], None] | None = None) -> None:
        """There is room."""

    def end(self) -> None:
        self.times += 1
        self.ended.set()


def test_the_processes_of_a_job_end_with_its_budget() -> None:
    """Also where nobody looks; who looks later is told why, as often as it does."""
    sandbox, over = Bounded(), list[BudgetExceeded]()
    with Warden(cast(Any, sandbox), cast(Any, Bounded()), lambda: over[0] if over else None) as warden:
        warden.watch()
        assert not sandbox.ended.is_set()
        over.append(BudgetExceeded("the budget of 9 seconds is used up"))
        assert sandbox.ended.wait(60)
        for _ in range(2):
            with pytest.raises(BudgetExceeded, match="9 seconds") as error:
                warden.watch()
            assert error.value.is_time
    assert sandbox.times == 1
