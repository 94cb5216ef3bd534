"""Judges scripts in parallel, so that no core waits for the others of a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AHEAD = 3
"""Candidates per core: most end in eager, long before a compiled one."""
T = TypeVar("T")


def until_one_fails(candidates: Sequence[T], fails: Callable[[T], bool], jobs: int) -> list[bool | None]:
    """Whether each candidate fails, judged in order and ``jobs`` at a time up to the first that does; None for the
    rest.

    An exception of ``fails`` is raised once the running ones have ended.
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
