"""Asks about scripts side by side, so that no core waits for the others of a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AHEAD = 3
"""Candidates at hand for each core: most end in eager, long before one that is compiled."""
T = TypeVar("T")


def until_one_fails(candidates: Sequence[T], fails: Callable[[T], bool], jobs: int) -> list[bool | None]:
    """Whether each candidate fails, asked in order and ``jobs`` at a time until one does; None for those that were not asked by then.

    Whatever ``fails`` raises is raised once those that were asked have been answered.
    """
    verdicts: list[bool | None] = [None] * len(candidates)
    pending, lock = iter(range(len(candidates))), threading.Lock()

    def following() -> int | None:
        with lock:
            return None if any(verdicts) else next(pending, None)

    def ask() -> None:
        while (index := following()) is not None:
            verdicts[index] = fails(candidates[index])

    with ThreadPoolExecutor(jobs) as pool:
        for asked in [pool.submit(ask) for _ in range(min(jobs, len(candidates)))]:
            asked.result()
    return verdicts
