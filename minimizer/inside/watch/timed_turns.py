"""Times both sides of a graph in turns, so that both see the same load of the machine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..questions import LEAST_TURNS
from ..values import snapshot
from ..values.device import settle

TIMED_CALLS = 30
"""Most counted calls of each side of a graph."""
TIMED_SECONDS = 1.0
"""Seconds after which no further pair of timed calls of a graph begins if enough of them count."""
PATIENCE_SECONDS = 10.0
"""Seconds beyond these for all graphs of a run, spent on those of which too few pairs count."""
WAITING_SHARE = 0.1
"""Largest share of a pair's time for which threads may have waited for a core."""


class Turn(NamedTuple):
    """The seconds of a call in eager, and of the compiled call after it."""

    eager: float
    compiled: float


class Stopwatch:
    """Times calls of a run's graphs, for longer where other processes use the cores."""

    def __init__(self) -> None:
        self._patience = PATIENCE_SECONDS

    def turns_of(self, eager: Callable[..., Any], compiled: Callable[..., Any], args: list[Any]) -> list[Turn]:
        """Time both sides of a graph on copies of its arguments; restores the random state.

        A pair of calls does not count if threads of this process waited for a core in the meantime: threads that wait for
        each other can then take a thousand times as long, on one side only.
        """
        rng, turns, more = snapshot.rng_state(), list[Turn](), 0.0
        started = time.perf_counter()
        while len(turns) < TIMED_CALLS:
            before = waited()
            turn = turn_of(eager, compiled, args)
            if waited() - before <= WAITING_SHARE * sum(turn):
                turns.append(turn)
            more = time.perf_counter() - started - TIMED_SECONDS
            if more > (0.0 if len(turns) >= LEAST_TURNS else self._patience):
                break
        self._patience -= max(0.0, more)
        snapshot.set_rng_state(rng)
        return turns


def turn_of(eager: Callable[..., Any], compiled: Callable[..., Any], args: list[Any]) -> Turn:
    """Time one call of each side on copies of its arguments."""
    return Turn(seconds_of(eager, args), seconds_of(compiled, args))


def seconds_of(function: Callable[..., Any], args: list[Any]) -> float:
    """Seconds of a call on copies of these arguments."""
    copies = snapshot.clone(args)
    settle()  # a GPU may still compute after the call
    begun = time.perf_counter()
    function(*copies)
    settle()
    return time.perf_counter() - begun


def waited() -> float:
    """Seconds for which threads of this process were ready to run and had no core, by the scheduler's own account.

    0 where the kernel keeps no account; threads that ended are not counted.
    """
    seconds = 0.0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            seconds += int((task / "schedstat").read_text().split()[1]) / 1e9
    return seconds
