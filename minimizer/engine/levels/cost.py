"""From a graph that costs more than necessary to a repro that measures it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.advice.rules import Cause
from minimizer.engine.child.protocol import Health
from minimizer.engine.diagnose.ladder import on_backend
from minimizer.engine.emit import Details
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.cost_oracle import LEAST_TIMES, PARTITIONED, Bar, CostOracle, SavedOracle, times_more
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.finding import FindingLevel
from minimizer.engine.levels.measured import MeasuredLevel
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.survey.cases import Case
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure
from minimizer.vocabulary import Kind, Stage

TURN_SECONDS, MOST_SECONDS = 0.01, 1.0
"""Least seconds of eager in one turn of a repro, for the clock's resolution; most seconds of compiled code, to allow
many turns.
"""
LEAST_SECONDS = 1e-5
"""The least time of a call, in seconds."""


class CostLevel(MeasuredLevel):
    """The search for the smallest part of the graph ``case`` that has the finding ``cause``, a figure of this kind.

    ``script``: the user's. ``health``: the run in which it was measured.
    """

    def __init__(
        self, case: Case, kind: Kind, cause: Cause, journal: Journal, *, oracle: Oracle, script: Path, health: Health
    ) -> None:
        self._oracle = CostOracle.for_whole(oracle, kind)
        super().__init__(case, kind, journal, self._oracle, script)
        self._cause, self._health = cause, health

    def _stage(self, program: Program) -> Stage:
        """The stage to blame: the one with the largest share of the time; for memory, AOTAutograd if the backend
        without Inductor keeps as much.
        """
        if self._kind is Kind.MEMORY:
            is_kept = self._oracle.clears(on_backend(program, PARTITIONED))
            return Stage.AOT_AUTOGRAD if is_kept else Stage.INDUCTOR
        known = next((one for one in self._health.compilations if one.graph == self._cause.graph), None)
        if self._kind is Kind.SLOW or known is None:
            return Stage.INDUCTOR
        shares = {
            Stage.DYNAMO: known.dynamo,
            Stage.AOT_AUTOGRAD: known.aot,
            Stage.INDUCTOR: known.lowering + known.code,
        }
        return max(shares, key=lambda stage: shares[stage])

    def _details(self, program: Program) -> Details | None:
        """The asserted figures: half of the excess on a logarithmic scale, so that noise on another machine does not
        decide.
        """
        cost = self._oracle.cost(program)
        # The reduction ends just above the bar, and a second measurement may fall below it.
        if cost is None or not Bar.lowest(self._kind).is_cleared(cost):
            return None
        least = LEAST_TIMES[self._kind]
        times = min(times_more(self._kind, cost), 100.0)
        calls = min(TURN_SECONDS / max(cost.base, LEAST_SECONDS), MOST_SECONDS / max(cost.compiled, LEAST_SECONDS))
        return {"times": max(least, round(math.sqrt(times), 1)), "calls": max(1, round(calls))}


class SavedLevel(FindingLevel):
    """The search among the texts of a script for excess memory saved by compiled code, where no graph shows it in
    isolation.

    A graph that Dynamo captured from the script's own ``autograd.Function`` cannot be captured again from a plain
    function.
    """

    def __init__(self, script: Path, args: Sequence[str], journal: Journal, oracle: SavedOracle, *, jobs: int) -> None:
        super().__init__(script, args, journal, oracle, jobs=jobs)
        self._saved = oracle

    def draft(self, fault: Fault) -> Draft | None:
        """Reduce the script; see `FindingLevel.draft`."""
        return super().draft(replace(fault, culprits=(Culprit(source=self._saved.cause.finding.source),)))

    def _emit(self, text: str, fault: Fault) -> Draft | None:
        """Find the stage with the reduced script, which ends well, and write the repro."""
        stage = Stage.AOT_AUTOGRAD if self._saved.is_partitioned(text) else Stage.INDUCTOR
        return super()._emit(text, self._journal.blame(fault.stating(stage=stage)))


def announce(kind: Kind, cause: Cause, known: Fault, journal: Journal) -> Fault:
    """Add the finding to what is known, as a failure; it stays in the report however the search ends."""
    failure = Failure(kind=kind, stage=Stage.UNKNOWN, message=cause.finding.what, signature=Signature(kind).text)
    return journal.announce(replace(known, failure=failure))
