"""From a graph that costs more than necessary to a repro that measures it: reduce → blame → emit, with a figure as the
failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.advice.rules import Cause
from minimizer.engine.budget.patience import WRITE_SECONDS
from minimizer.engine.child.outcome import Cost
from minimizer.engine.child.protocol import Health
from minimizer.engine.diagnose.ladder import on_backend
from minimizer.engine.emit import Details
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import data_of, write
from minimizer.engine.levels.cost_oracle import LEAST_TIMES, PARTITIONED, Bar, CostOracle, SavedOracle, times_more
from minimizer.engine.levels.draft import ALWAYS, Draft
from minimizer.engine.levels.finding import FindingLevel
from minimizer.engine.levels.from_outcomes import culprit_of
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import Reduced, reduce
from minimizer.engine.reduce.graph.public_names import publish
from minimizer.engine.reduce.words import said
from minimizer.engine.survey.cases import Case
from minimizer.engine.verify.reserve import to_finish
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Culprit
from minimizer.report.model import Failure, HistoryStep, Reduction, Reproducibility
from minimizer.vocabulary import Kind, Stage, Step

TURN_SECONDS, MOST_SECONDS = 0.01, 1.0
"""Least seconds of eager in one turn of a repro, for the clock's resolution; most seconds of compiled code, to allow
many turns.
"""
LEAST_SECONDS = 1e-5
"""The least time of a call, in seconds."""


class CostLevel:
    """The search for the smallest part of the graph ``case`` that has the finding ``cause``, a figure of this kind.

    ``script``: the user's. ``health``: the run in which it was measured.
    """

    def __init__(
        self, case: Case, kind: Kind, cause: Cause, journal: Journal, *, oracle: Oracle, script: Path, health: Health
    ) -> None:
        self._case, self._kind, self._cause, self._journal = case, kind, cause, journal
        self._oracle = CostOracle.for_whole(oracle, kind)
        self._lines = sum(bool(line.strip()) for line in script.read_text(errors="replace").splitlines())
        self._health = health

    def draft(self) -> Draft | None:
        """The repro of the smallest part; None if the graph does not show the finding when it is run in isolation."""
        journal, oracle, program = self._journal, self._oracle, self._case.program.as_compiled()
        fold.on_device(journal.report, self._case.device)
        with journal.step(Step.LOCALIZE):
            if not oracle.aim(program):
                return None
        journal.fault = journal.fault.stating(reproducibility=Reproducibility(failed=2, runs=2))
        with journal.clock.reserving(partial(to_finish, journal.clock.pace, self._kind)):
            reduced = self._reduced(program)
        best = reduced.best
        with journal.step(Step.BLAME), journal.clock.undisturbed(WRITE_SECONDS):
            culprit = culprit_of(best, oracle.trial.operators(best), None, program)
            stage = self._stage(best)
            journal.blame(replace(journal.fault.stating(stage=stage), culprits=(culprit,)))
        with journal.clock.undisturbed(WRITE_SECONDS), journal.step(Step.EMIT):
            cost = oracle.cost(best)
            # The reduction ends just above the bar, and a second measurement may fall below it.
            if cost is None or not Bar.lowest(self._kind).is_cleared(cost):
                return None
            repro = write(best, self._details(cost), ALWAYS, journal)
            draft = Draft(repro, data_of(repro, self._case))
            draft.keep(journal)
            return draft

    def _reduced(self, program: Program) -> Reduced[Program]:
        journal, oracle = self._journal, self._oracle
        history: list[HistoryStep] = []
        start = Reduction(level="dynamo", nodes_before=program.size, nodes_after=program.size, lines_before=self._lines)

        def record(step: HistoryStep, best: Program) -> None:
            history.append(step)
            reached = {"nodes_after": step.nodes, "trials": oracle.trials}
            journal.fault = replace(journal.fault, reduction=start.model_copy(update=reached))
            message = said(step.by)
            journal.progress(nodes=step.nodes, nodes_before=program.size, trials=oracle.trials, message=message)

        with journal.step(Step.REDUCE):
            reduced = reduce(
                program,
                check=oracle.check,
                literal=self._case.survey.literal,
                on_step=record,
                watch=journal.watch,
            )
            if reduced.one_minimal:
                with suppress(BudgetExceeded):
                    reduced = replace(reduced, best=publish(reduced.best, oracle.check))
        journal.fault = replace(journal.fault, reduction=start).counting(
            nodes_after=reduced.best.size,
            trials=oracle.trials,
            cache_hits=reduced.cache_hits,
            one_minimal=reduced.one_minimal,
            history=history,
            seconds=round(reduced.seconds, 2),
        )
        return reduced

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

    def _details(self, cost: Cost) -> Details:
        """The asserted figures: half of the excess on a logarithmic scale, so that noise on another machine does not
        decide.
        """
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

    def draft(self) -> Draft | None:
        """Reduce the script; see `FindingLevel.draft`."""
        fold.on_device(self._journal.report, "cpu")
        culprit = Culprit(source=self._saved.cause.finding.source)
        self._journal.fault = replace(self._journal.fault, culprits=(culprit,))
        return super().draft()

    def _emit(self, text: str) -> Draft | None:
        """Find the stage with the reduced script, which ends well, and write the repro."""
        stage = Stage.AOT_AUTOGRAD if self._saved.is_partitioned(text) else Stage.INDUCTOR
        self._journal.blame(self._journal.fault.stating(stage=stage))
        return super()._emit(text)


def announce(kind: Kind, cause: Cause, journal: Journal) -> None:
    """Announce the finding as a failure; it stays in the report however the search ends."""
    failure = Failure(kind=kind, stage=Stage.UNKNOWN, message=cause.finding.what, signature=Signature(kind).text)
    journal.fault = replace(journal.fault, failure=failure)
    journal.announce(journal.fault)
