"""Distinguishes a hang from a slow task, by the task's last announced phase and samples of its stacks.

A task announces each phase before it begins. Once a phase lasts longer than eager's time explains, the stacks are
sampled from outside. Samples that show the same place are a hang. A task seen in different places is at work: it gets
`SLOW_FACTOR` times the limit before it counts as slow, which is not a hang. If it stops moving later, it must stay in
that place for the whole limit to count as a hang. A task that waits for a C++ compiler gets as long as one at work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from minimizer.engine.child import stacks
from minimizer.engine.child.protocol import Phase, Stacks
from minimizer.engine.child.rank_stacks import RankState
from minimizer.engine.child.stacks import Stack

EAGER_FACTOR = 20.0
"""Multiple of eager's time that compiling or running a graph may take before its stack is sampled."""
SLOW_FACTOR = 6.0
"""Multiple of that limit for a task seen at work."""
SAMPLES = 4
"""Number of consecutive samples that must show the same place."""
GRACE = 10.0
"""Seconds between asking a script to stop at the end of its share of the budget, asking again, and killing it."""
CROWDED = 1.5
"""Runnable processes per core above which times reflect the machine's load more than the task."""
_COMPILED = ("compile", "run", "compiled", "backward")
_MAX_SAMPLES = 1000


class Action(Enum):
    """The action that the watchdog requests."""

    SAMPLE = "sample"
    """Ask for the stack."""
    STOP = "stop"
    """Ask the script to stop and to report its findings: enough was compared, or its time is over."""
    KILL = "kill"


@dataclass(frozen=True)
class Limits:
    """Limits of a task, in seconds.

    Args:
        floor: least silence before the stack is sampled, however fast eager is.
        apart: interval between two samples.
        waits: least silence before the stack of a script that does not compile is sampled, for a script with ranks.
        quiet: a script whose graphs are all trusted is stopped once it has announced nothing for this long.
        patience: a script is stopped after this long, once something was compared.
        share: a script is stopped after this long whatever it does, and killed if it does not stop.
        slow_factor: multiple of the limit for a task at work.
    """

    floor: float
    apart: float = 2.0
    waits: float = float("inf")
    quiet: float = float("inf")
    patience: float = float("inf")
    share: float = float("inf")
    slow_factor: float = SLOW_FACTOR


@dataclass(frozen=True)
class Silence:
    """The observation of a task that announced nothing for ``seconds``; ``chain``: the frames that its samples share.

    ``hangs``: the samples show the same place; otherwise it was at work, but too slow. ``stayed``: seconds seen in that
    place, if it was elsewhere before; else None. ``out_of_time``: neither; it was killed at the end of its share of the
    budget.
    """

    chain: Stack
    seconds: float
    hangs: bool
    stayed: float | None = None
    out_of_time: bool = False
    dump: str = ""
    """The latest dump of the stacks of all threads."""
    others: Sequence[RankState] = ()
    """The activity of the other ranks at that time."""

    @property
    def where(self) -> str:
        """The place, by a name that is equal in all processes; empty if unknown."""
        named = stacks.culprit(self.chain)
        return named.place if named is not None else ""

    @property
    def text(self) -> str:
        """The place, for a reader."""
        named = stacks.culprit(self.chain)
        return f"{named.function} ({named.file}, line {named.line})" if named is not None else "an unknown place"

    @property
    def users_line(self) -> str:
        """The innermost line of the user's own code, for a reader; empty if there is none."""
        users = [frame for frame in self.chain if frame.is_users]
        return f"{users[-1].file}, line {users[-1].line}" if users else ""

    @property
    def is_among_ranks(self) -> bool:
        """Whether it waits in a collective, so that other ranks may be the cause."""
        return bool(self.others and stacks.collective(self.chain))

    def of_ranks(self, own: int) -> str:
        """The activity of each rank, in words; ``own``: the number of the watched one."""
        chain = self.chain
        if not any(frame.is_users for frame in chain):  # our own frames may lie between it and the script
            chain = (*stacks.users(self.dump)[-1:], *chain)
        watched = RankState(own, chain, self.seconds if self.stayed is None else self.stayed)
        return "; ".join(rank.words for rank in sorted((watched, *self.others), key=lambda one: one.rank))


def crowding() -> float:
    """Runnable processes per core of this machine, at least 1: the possible slowdown of a task by its load."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Watchdog:
    """Watches one task. Not thread-safe: only the thread that waits for the task calls it."""

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        crowd: Callable[[], float] = crowding,
        others: Callable[[], Sequence[RankState]] = tuple,
    ) -> None:
        """``others``: the activity of the other ranks of the script."""
        self.limits, self._clock, self._crowd, self._others = limits, clock, crowd, others
        self._started = self._since = self._sampled = clock()
        self._phase = Phase()
        self._samples: list[Stack] = []
        self._dump = ""
        self._moved: float | None = None
        """Time of the first sample in its present place, if it was seen elsewhere before."""
        self._asked_to_stop: list[float] = []
        self.verdict: Silence | None = None
        """Set once `due` has asked for a kill."""

    def begin(self) -> None:
        """Start the clock anew: the task, which had to wait, begins now."""
        self._started = self._since = self._sampled = self._clock()

    def heard(self, said: Phase | Stacks) -> None:
        """Record a phase that the task announced, or a sample of its stacks."""
        if isinstance(said, Stacks):
            sample = stacks.parse(said.text)
            self._dump = said.text if sample else self._dump
            if sample and len(self._samples) < _MAX_SAMPLES:
                self._samples.append(sample)
                if not stacks.agree(self._samples[-SAMPLES:]):
                    self._moved = self._clock()
        else:
            self._phase, self._since, self._samples, self._moved = said, self._clock(), [], None

    def due(self) -> Action | None:
        """The action to take now; None if there is none."""
        now = self._clock()
        silent = now - self._since
        if self.verdict is None and (self._is_enough(now, silent) or self._is_to_be_asked(now)):
            self._asked_to_stop.append(now)
            return Action.STOP
        if self.verdict is None and self._overdue(now) >= 2 * GRACE:
            chain = stacks.common(self._samples[-SAMPLES:])
            self.verdict = Silence(chain, silent, hangs=False, out_of_time=True, dump=self._dump, others=self._others())
            return Action.KILL
        floor = min(self.limits.floor, self.limits.waits) if self._is_own_code else self.limits.floor
        limit = max(floor, EAGER_FACTOR * self._eager_seconds) * self._crowd()
        is_late = silent >= limit or self._overdue(now) >= 0
        if self.verdict is not None or not is_late or not (self._is_own_code or self._doing in _COMPILED):
            return None
        self.verdict = self._judge(silent, limit) if silent >= limit else None
        if self.verdict is not None:
            return Action.KILL
        if now - self._sampled < self.limits.apart:
            return None
        self._sampled = now
        return Action.SAMPLE

    def seen(self) -> Silence | None:
        """The observation of a task that ended otherwise; None if it was not sampled."""
        return self.verdict or (self._silence(hangs=False) if self._samples else None)

    @property
    def phase(self) -> Phase:
        """The last phase that the task announced."""
        return self._phase

    @property
    def _doing(self) -> str:
        return self._phase.doing or self._phase.phase

    @property
    def _is_own_code(self) -> bool:
        """Whether it runs the script's own code; an eager run with ranks announces nothing."""
        return self._doing == "script" or (not self._doing and self.limits.waits < float("inf"))

    @property
    def _eager_seconds(self) -> float:
        seconds = self._phase.eager_seconds or 0.0
        return seconds if 0 <= seconds < 1e6 else 0.0

    def _is_enough(self, now: float, silent: float) -> bool:
        if self._asked_to_stop:  # it may be waiting for a backward: ask once more
            return len(self._asked_to_stop) == 1 and now - self._asked_to_stop[0] >= self.limits.quiet
        if self._doing != "script" or not (self._phase.checked and self._phase.checked.calls):
            return False
        return (self._phase.trusted and silent >= self.limits.quiet) or now - self._started >= self.limits.patience

    def _overdue(self, now: float) -> float:
        """Seconds since the share of the budget ended; compilation and comparison get ``floor`` seconds more."""
        started = now - self._started - self.limits.share
        return started if self._doing in ("script", "") else started - self.limits.floor

    def _is_to_be_asked(self, now: float) -> bool:
        """Whether to ask the task to stop at the end of its share of the budget: once, and again after `GRACE` seconds.

        A task that has announced nothing yet has no handler for the signal, which would kill it.
        """
        if not self._doing:
            return False
        asked = sum(when >= self._started + self.limits.share for when in self._asked_to_stop)
        if asked == 0:
            return now - self._started >= self.limits.share
        return asked == 1 and self._overdue(now) >= GRACE

    def _judge(self, silent: float, limit: float) -> Silence | None:
        """The verdict, once the samples allow one; None before. The script's own code may take any time."""
        last = self._samples[-SAMPLES:]
        if len(last) < SAMPLES:
            return None
        is_late = silent >= self.limits.slow_factor * limit
        stays = self._moved is None or self._clock() - self._moved >= limit
        waits = stacks.collective(stacks.common(last))  # be it in compiled code
        if self._is_own_code and (waits or not all(map(stacks.is_compiling, last))):
            if stays and stacks.agree(last) and waits:
                silence = self._silence(hangs=True)
                compiling = self.limits.floor * self._crowd()
                if silence.others and all(rank.stands(compiling) for rank in silence.others):
                    return silence
            return self._silence(hangs=False) if is_late and self._asked_to_stop else None
        if stays and stacks.agree(last) and (is_late or not stacks.is_waiting(stacks.common(last))):
            return self._silence(hangs=True)
        return self._silence(hangs=False) if is_late else None

    def _silence(self, *, hangs: bool) -> Silence:
        samples = self._samples[-SAMPLES:] if hangs else self._samples
        now = self._clock()
        stayed = now - self._moved if hangs and self._moved is not None else None
        chain = stacks.common(samples)
        return Silence(chain, now - self._since, hangs, stayed, dump=self._dump, others=self._others())
