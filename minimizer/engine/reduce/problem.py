"""The problem: the one place where candidates are judged and accepted.

Passes propose candidates; `Problem` tries those it does not know yet with the oracle, accepts the smallest that still
fails, and keeps count. So no pass sees the oracle, and none can make the result larger or repeat a trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from minimizer.report.model import HistoryStep


class Candidate(Protocol):
    """A candidate for reduction: a program, or a script."""

    @property
    def size(self) -> int:
        """The number of nodes of a program, or of statements of a script."""

    def fingerprint(self) -> str:
        """A content hash: candidates with the same one are the same."""


Item = TypeVar("Item")
C = TypeVar("C", bound=Candidate)

OnStep = Callable[[HistoryStep, C], None]
"""Called for each accepted candidate, with its step (trial, seconds, size, pass) and the candidate itself."""


class Problem(Generic[C]):
    """The reduction of a failing candidate: the best so far, and all verdicts.

    ``check``: whether each candidate of a batch still fails in the same way; may raise BudgetExceeded or Cancelled.
    ``key``: the order of candidates, smaller is better. ``watch``: may raise the same; called for every batch, since
    one whose candidates are all known, or larger than the best, runs no trial. ``jobs``: trials in parallel.
    """

    def __init__(
        self,
        candidate: C,
        *,
        check: Callable[[Sequence[C]], Sequence[bool]],
        key: Callable[[C], tuple[int, ...]],
        on_step: OnStep[C],
        jobs: int,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self.best = candidate
        self.jobs = max(1, jobs)
        self.trials = 0
        self.cache_hits = 0
        self.history: list[HistoryStep] = []
        self._check = check
        self._watch = watch
        self._on_step = on_step
        self._key = key
        self._best_key = key(candidate)
        self._known: dict[str, bool] = {candidate.fingerprint(): True}
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the reduction began."""
        return time.monotonic() - self._start

    def judge(self, candidates: Sequence[C | None], by: str) -> list[bool]:
        """Whether each candidate is smaller than the best and fails like it; the smallest of these becomes the best.

        A candidate that is None or not smaller is refused without a trial; the verdict on a known one is a cache hit.
        """
        self._watch()
        order = [None if c is None else self._key(c) for c in candidates]
        prints = [
            c.fingerprint() if c is not None and key is not None and key < self._best_key else None
            for c, key in zip(candidates, order, strict=True)
        ]
        improved = False
        unknown: dict[str, C] = {}
        for candidate, mark in zip(candidates, prints, strict=True):
            if candidate is None or mark is None:
                continue
            if mark in self._known or mark in unknown:
                self.cache_hits += 1
            else:
                unknown[mark] = candidate
        if unknown:
            answers = self._check(tuple(unknown.values()))
            self.trials += len(unknown)
            self._known.update(zip(unknown, answers, strict=True))
        verdicts = [mark is not None and self._known[mark] for mark in prints]
        for candidate, key, fails in zip(candidates, order, verdicts, strict=True):
            if candidate is not None and key is not None and fails and key < self._best_key:
                self.best, self._best_key = candidate, key
                improved = True
        if improved:
            self._record(by)
        return verdicts

    def first(self, candidates: Iterable[C | None], by: str) -> bool:
        """Try candidates in order, a batch at a time, until a batch has an accepted one; whether one had."""
        rest = iter(candidates)
        while batch := list(islice(rest, self.jobs)):
            if any(self.judge(batch, by)):
                return True
        return False

    def shrink(
        self, items: Sequence[Item], change: Callable[[C, Sequence[Item]], C | None], by: str, *, whole: bool = True
    ) -> bool:
        """Remove as many of the items as possible: all of them, then halves, down to single ones.

        Needs about 2·k·log(n/k) trials where k of n items must stay. Chunks are tried in parallel; those that can go
        are removed together if the failure survives that, else one after the other. Without ``whole`` the set of all
        items is not tried. On return, no single one of the given items could be removed from the candidate that was
        best when it was tried.
        """
        queue = [list(items)] if whole and items else _halves(items)
        before = self.best
        while queue:
            batch, queue = queue[: self.jobs], queue[self.jobs :]
            base = self.best
            candidates = [change(base, chunk) for chunk in batch]
            verdicts = self.judge(candidates, by)
            for chunk, fails in zip(batch, verdicts, strict=True):
                if not fails and len(chunk) > 1:
                    queue += _halves(chunk)
            won = [(chunk, c) for chunk, c, fails in zip(batch, candidates, verdicts, strict=True) if fails]
            if len(won) > 1:
                together = [item for chunk, _ in won for item in chunk]
                if not any(self.judge([change(base, together)], by)):
                    queue = [chunk for chunk, c in won if c is not self.best] + queue
        return self.best is not before

    def largest(self, low: int, high: int, make: Callable[[int], C | None], by: str) -> int:
        """The largest k with low <= k < high for which ``make(k)`` fails, by bisection; ``low`` is known to."""
        while high - low > 1:
            ways = min(self.jobs, high - low - 1)
            points = sorted({low + (high - low) * (i + 1) // (ways + 1) for i in range(ways)} - {low})
            verdicts = self.judge([make(point) for point in points], by)
            low = max([point for point, fails in zip(points, verdicts, strict=True) if fails], default=low)
            high = min([point for point in points if point > low], default=high)
        return low

    def _record(self, by: str) -> None:
        step = HistoryStep(trial=self.trials, seconds=round(self.seconds, 3), nodes=self.best.size, by=by)
        self.history.append(step)
        self._on_step(step, self.best)


def _halves(items: Sequence[Item]) -> list[list[Item]]:
    middle = len(items) // 2
    return [list(half) for half in (items[:middle], items[middle:]) if half]
