"""Times both sides of a graph in turns, so that both see the same load of the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..values import snapshot
from ..values.device import settle

TIMED_CALLS = 30
"""Most timed calls of each side of a graph."""
TIMED_SECONDS = 1.0
"""Seconds after which no further pair of timed calls of a graph begins."""


class Turn(NamedTuple):
    """The seconds of a call in eager, and of the compiled call after it."""

    eager: float
    compiled: float


def turns_of(eager: Callable[..., Any], compiled: Callable[..., Any], args: list[Any]) -> list[Turn]:
    """Time both sides of a graph on copies of its arguments; restores the random state.

    A pair of calls does not count if other processes competed for the cores: threads that wait for each other can then
    take a thousand times as long, on one side only.
    """
    rng, turns = snapshot.rng_state(), list[Turn]()
    started = time.perf_counter()
    for _ in range(TIMED_CALLS):
        crowded = is_crowded()
        turn = turn_of(eager, compiled, args)
        if not crowded and not is_crowded():
            turns.append(turn)
        if time.perf_counter() - started > TIMED_SECONDS:
            break
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


def is_crowded() -> bool:
    """Whether more tasks are runnable at this moment than there are cores."""
    running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    return int(running) > (os.cpu_count() or 1)
