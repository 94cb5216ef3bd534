"""The oracle of a finding that is a figure: does a program still cost so much more compiled than in eager?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.advice.memory import TIMES_MORE
from minimizer.engine.advice.rules import SLOWER, SLOWER_SECONDS, Cause
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Cost, Ending
from minimizer.engine.levels.finding import FindingOracle
from minimizer.engine.levels.measured import MeasuringOracle
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.inside.questions import CostRequest
from minimizer.vocabulary import Kind

LEAST_TIMES: Mapping[Kind, float] = {Kind.SLOW: SLOWER, Kind.MEMORY: TIMES_MORE, Kind.COMPILE_TIME: 5.0}
"""The least ratio of a program's cost to the base: eager, or for compile time that of a single operator."""
LEAST_MORE: Mapping[Kind, float] = {Kind.SLOW: SLOWER_SECONDS, Kind.MEMORY: 1e6, Kind.COMPILE_TIME: 5.0}
"""The least excess over the base: seconds of a call, bytes, seconds of compiling."""
KEPT_SHARE: Mapping[Kind, float] = {Kind.SLOW: 0.5, Kind.MEMORY: 1 / 16, Kind.COMPILE_TIME: 0.5}
"""The share of the whole graph's excess that a candidate must keep.

Bytes add up over equal layers, of which one is enough. A time may be spread over many places, so that a smaller share of
it would match the cost of any call.
"""
PARTITIONED = "aot_eager_decomp_partition"
"""A backend with AOTAutograd's choice of what to save, without Inductor."""
LEAST_BASE: Mapping[Kind, float] = {Kind.COMPILE_TIME: 0.1}
"""The least value of the base, in seconds: nothing compiles faster, and uncompiled both sides take no time."""


@dataclass(frozen=True)
class Bar:
    """The cost that shows a finding: at least ``times`` the base, and ``more`` above it."""

    kind: Kind
    times: float
    more: float

    @classmethod
    def lowest(cls, kind: Kind) -> Bar:
        """The bar for any program that may have a finding of this kind."""
        return cls(kind, LEAST_TIMES[kind], LEAST_MORE[kind])

    @classmethod
    def of(cls, kind: Kind, whole: Cost) -> Bar:
        """The bar for parts of a graph with this cost: half of its excess on a logarithmic scale."""
        base = _base(kind, whole)
        times = max(LEAST_TIMES[kind], math.sqrt(whole.compiled / base)) if base else LEAST_TIMES[kind]
        return cls(kind, times, max(LEAST_MORE[kind], KEPT_SHARE[kind] * (whole.compiled - base)))

    def is_cleared(self, cost: Cost) -> bool:
        """Whether a program costs that much."""
        base = _base(self.kind, cost)
        return cost.compiled >= self.times * base and cost.compiled - base >= self.more


def times_more(kind: Kind, cost: Cost) -> float:
    """The ratio of compiled cost to the base; infinite for a base of zero."""
    base = _base(kind, cost)
    return cost.compiled / base if base else math.inf


def _base(kind: Kind, cost: Cost) -> float:
    return max(cost.base, LEAST_BASE.get(kind, 0.0))


class SavedOracle(FindingOracle):
    """Judges whether a script passes with and without the compiler, and its compiled code saves as much more for
    backward.
    """

    def __init__(self, executor: Executor, path: Path, cause: Cause) -> None:
        super().__init__(executor, path, Kind.MEMORY, cause)
        self._bar = Bar.lowest(Kind.MEMORY)

    def aim(self, text: str) -> bool:
        """Set the bar by the whole script; returns whether the script shows the finding in isolation."""
        cost, _ = self._cost(text)
        if cost is None or not self._bar.is_cleared(cost):
            return False
        self._bar = Bar.of(self.kind, cost)
        return True

    def shown(self, text: str) -> Cause | None:
        """The cause of the finding; None if a script does not show it."""
        return self.cause if self._judge(text)[0] else None

    def is_partitioned(self, text: str) -> bool:
        """Whether as much is saved with AOTAutograd's choice and without Inductor."""
        cost, _ = self._cost(text, PARTITIONED)
        return cost is not None and self._bar.is_cleared(cost)

    def _judge(self, text: str) -> tuple[bool, bool]:
        cost, draws = self._cost(text)
        return cost is not None and self._bar.is_cleared(cost), draws

    def _cost(self, text: str, backend: str | None = None) -> tuple[Cost | None, bool]:
        """The bytes that a script saves (None if it does not end well), and whether it draws random numbers."""
        eager = self._request(text, compiled=False)
        compiled = self._request(text, compiled=True, backend=backend, state=eager.state)
        outcomes = self._run([replace(request, count_saved=True) for request in (eager, compiled)])
        if any(outcome.ending is not Ending.SAME for outcome in outcomes):
            return None, outcomes[0].draws
        return Cost(base=outcomes[0].saved, compiled=outcomes[1].saved), outcomes[0].draws


@dataclass(kw_only=True)
class CostOracle(MeasuringOracle):
    """Judges programs by their cost, one at a time: parallel trials that share the cores would measure the load.

    ``bar``: what a program must clear, at first the least for any finding.
    """

    kind: Kind
    bar: Bar

    @classmethod
    def for_whole(cls, trial: Oracle, kind: Kind) -> CostOracle:
        """An oracle with the least cost that shows a finding in any graph."""
        return cls(trial, kind=kind, bar=Bar.lowest(kind))

    def aim(self, program: Program) -> bool:
        """Set the bar by the whole graph; returns whether the graph shows the finding in isolation."""
        cost = self.cost(program)
        if cost is None or not self.bar.is_cleared(cost):
            return False
        self.bar = Bar.of(self.kind, cost)
        return True

    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Whether each of the programs still costs as much."""
        return [self.clears(program) for program in programs]

    def clears(self, program: Program) -> bool:
        """Whether a program still costs as much."""
        cost = self.cost(program)
        return cost is not None and self.bar.is_cleared(cost)

    def cost(self, program: Program) -> Cost | None:
        """The cost of a program; None if it does not run on both sides."""
        request = CostRequest(**vars(self.trial.request(program)), of=self.kind.value)
        (outcome,) = self._measured([request])
        return outcome.cost if outcome.ending is Ending.SAME else None
