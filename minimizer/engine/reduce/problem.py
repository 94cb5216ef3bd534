"""The problem: the one place where candidates are judged and accepted.

Passes propose candidates; `Problem` tries the unknown ones with the oracle, accepts the smallest that still fails, and
keeps count. So no pass sees the oracle, and none can make the result larger or repeat a trial.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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

    ``check``: whether each candidate of a batch still fails in the same way; may raise BudgetExceeded or Cancelled. It
    may leave some undecided (None) once another of the batch is known to fail. ``key``: the order of candidates,
    smaller is better. ``watch``: may raise the same; called for every batch, since a batch of known candidates, or of
    ones larger than the best, runs no trial. ``jobs``: trials in parallel. ``ahead``: candidates of a batch for each of
    them. ``change``: the edit that a candidate applies to the best. An edit that was refused once is refused without a
    trial, whatever else has changed since, until `recheck`.
    """

    def __init__(
        self,
        candidate: C,
        *,
        check: Callable[[Sequence[C]], Sequence[bool | None]],
        key: Callable[[C], tuple[int, ...]],
        on_step: OnStep[C],
        jobs: int,
        ahead: int = 1,
        watch: Callable[[], None] = lambda: None,
        change: Callable[[C, C], Hashable] | None = None,
    ) -> None:
        self.best = candidate
        self.jobs = max(1, jobs)
        self.batch = ahead * self.jobs
        self.trials = 0
        self.cache_hits = 0
        self.history: list[HistoryStep] = []
        self._check = check
        self._watch = watch
        self._on_step = on_step
        self._key = key
        self._best_key = key(candidate)
        self._known: dict[str, bool] = {candidate.fingerprint(): True}
        self._change = change
        self._refused: set[Hashable] = set()
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the reduction began."""
        return time.monotonic() - self._start

    def judge(self, candidates: Sequence[C | None], by: str) -> list[bool | None]:
        """Whether each candidate is smaller than the best and fails like it; the smallest of these becomes the best.

        A candidate that is None or not smaller is refused without a trial; the verdict on a known one is a cache hit.
        None means a candidate that was left undecided, since another one fails.
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
        refused = self._ask(unknown)
        verdicts = [False if mark is None or mark in refused else self._known.get(mark) for mark in prints]
        for candidate, key, fails in zip(candidates, order, verdicts, strict=True):
            if candidate is not None and key is not None and fails and key < self._best_key:
                self.best, self._best_key = candidate, key
                improved = True
        if improved:
            self._record(by)
        return verdicts

    def recheck(self) -> None:
        """Forget the refused edits: each has to be refused once more for the present best."""
        self._refused.clear()

    def _ask(self, unknown: Mapping[str, C]) -> Iterable[str]:
        """Try these candidates until one fails; others may then stay undecided.

        Returns those that were not tried, since their edit was refused before.
        """
        changes = {mark: self._change(self.best, one) if self._change else mark for mark, one in unknown.items()}
        refused = {mark for mark, change in changes.items() if change in self._refused}
        left, fails = {mark: one for mark, one in unknown.items() if mark not in refused}, False
        while left and not fails:
            answers = dict(zip(left, self._check(tuple(left.values())), strict=True))
            told = {mark: one for mark, one in answers.items() if one is not None}
            self.trials += len(told)
            self._known |= told
            self._refused |= {changes[mark] for mark, one in told.items() if not one}
            left, fails = {mark: one for mark, one in left.items() if mark not in told}, any(told.values())
        return refused

    def first(self, candidates: Iterable[C | None], by: str) -> bool:
        """Try candidates in order, a batch at a time, until a batch has an accepted one; whether one had."""
        rest = iter(candidates)
        while batch := list(islice(rest, self.batch)):
            if any(self.judge(batch, by)):
                return True
        return False

    def exhaust(self, candidates: Callable[[C], Iterable[C | None]], by: str) -> None:
        """Try the candidates of the best, and then those of each new best, until none is accepted."""
        while self.first(candidates(self.best), by):
            pass

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
            batch, queue = queue[: self.batch], queue[self.batch :]
            base = self.best
            candidates = [change(base, chunk) for chunk in batch]
            verdicts = self.judge(candidates, by)
            for chunk, fails in zip(batch, verdicts, strict=True):
                if fails is False and len(chunk) > 1:
                    queue += _halves(chunk)
            queue = [chunk for chunk, fails in zip(batch, verdicts, strict=True) if fails is None] + queue
            won = [(chunk, c) for chunk, c, fails in zip(batch, candidates, verdicts, strict=True) if fails]
            if len(won) > 1:
                together = [item for chunk, _ in won for item in chunk]
                if not any(self.judge([change(base, together)], by)):
                    queue = [chunk for chunk, c in won if c is not self.best] + queue
        return self.best is not before

    def detour(self, start: C, reduce_by: Callable[[Problem[C]], None], by: str) -> bool:
        """Reduce another failing candidate, such as a larger one, and accept the result if it is smaller; returns
        whether it was.

        Each is tried only once.
        """
        self._watch()
        mark = start.fingerprint()
        if mark in self._known:
            self.cache_hits += 1
            return False
        self._ask({mark: start})
        if not self._known.get(mark):
            return False
        aside = Problem(
            start,
            check=self._check,
            key=self._key,
            on_step=lambda step, best: None,
            jobs=self.jobs,
            ahead=self.batch // self.jobs,
            watch=self._watch,
            change=self._change,
        )
        try:
            reduce_by(aside)
        finally:
            self.trials += aside.trials
        if self._key(aside.best) >= self._best_key:
            return False
        self.best, self._best_key = aside.best, self._key(aside.best)
        self._known[self.best.fingerprint()] = True
        self._record(by)
        return True

    def largest(self, low: int, high: int, make: Callable[[int], C | None], by: str) -> int:
        """The largest k with low <= k < high for which ``make(k)`` fails, by bisection; ``low`` is known to fail."""
        while high - low > 1:
            ways = min(self.jobs, high - low - 1)
            points = sorted({low + (high - low) * (i + 1) // (ways + 1) for i in range(ways)} - {low})
            verdicts = self.judge([make(point) for point in points], by)
            low = max([point for point, fails in zip(points, verdicts, strict=True) if fails], default=low)
            passed = [point for point, fails in zip(points, verdicts, strict=True) if fails is False]
            high = min([point for point in passed if point > low], default=high)
        return low

    def _record(self, by: str) -> None:
        step = HistoryStep(trial=self.trials, seconds=round(self.seconds, 3), nodes=self.best.size, by=by)
        self.history.append(step)
        self._on_step(step, self.best)


def _halves(items: Sequence[Item]) -> list[list[Item]]:
    middle = len(items) // 2
    return [list(half) for half in (items[:middle], items[middle:]) if half]
