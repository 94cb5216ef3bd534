"""From a graph with a measurable fault to its repro: reduce → blame → emit, where a measurement of both sides is the judge, not a
comparison of their values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.budget.patience import WRITE_SECONDS
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.emit import Details
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import data_of, write
from minimizer.engine.levels.draft import ALWAYS, Draft
from minimizer.engine.levels.from_outcomes import culprit_of
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.timeouts import TrialTimes
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import reduce
from minimizer.engine.reduce.graph.public_names import publish
from minimizer.engine.reduce.words import said
from minimizer.engine.survey.cases import Case
from minimizer.engine.verify.reserve import to_finish
from minimizer.errors import BudgetExceeded
from minimizer.inside.questions import TrialRequest
from minimizer.report.model import HistoryStep, Reduction, Reproducibility, Workaround
from minimizer.vocabulary import Kind, Stage, Step


@dataclass
class MeasuringOracle(ABC):
    """Judges programs by a measurement of both sides. ``trial`` writes the requests."""

    trial: Oracle
    trials: int = 0
    _times: TrialTimes = field(default_factory=TrialTimes)

    @abstractmethod
    def aim(self, program: Program) -> bool:
        """Whether the program to reduce shows the fault in isolation; later ones are measured against it."""

    @abstractmethod
    def check(self, programs: Sequence[Program]) -> list[bool]:
        """Whether each of the programs still shows it."""

    def _measured(self, requests: Sequence[TrialRequest]) -> list[Outcome]:
        """The outcomes of measuring trials, run in parallel."""
        outcomes = self.trial.executor.judge(requests, timeout=self._times.timeout())
        self.trials += len(outcomes)
        self._times.note(outcomes)
        if any(request.golden_files for request in requests):
            self.trial.survey.trim()
        return outcomes


class MeasuredLevel(ABC):
    """The search for the smallest part of the graph ``case`` that shows a fault of this kind. ``script``: the user's."""

    seen = Reproducibility(failed=2, runs=2)
    """In how many runs the fault was seen once `draft` has aimed at it: in one of the script, and in a trial."""

    def __init__(self, case: Case, kind: Kind, journal: Journal, oracle: MeasuringOracle, script: Path) -> None:
        self._case, self._kind, self._journal, self._measuring = case, kind, journal, oracle
        self._lines = sum(bool(line.strip()) for line in script.read_text(errors="replace").splitlines())

    def draft(self, fault: Fault) -> Draft | None:
        """The repro of the smallest part; None if the graph does not show the announced fault in isolation."""
        journal, oracle, whole = self._journal, self._measuring, self._case.program.as_compiled()
        fold.on_device(journal.report, self._case.device)
        with journal.step(Step.LOCALIZE):
            program = self._start(whole)
            if program is None or not oracle.aim(program):
                return None
        fault = journal.record(fault.stating(reproducibility=self.seen))
        with journal.clock.reserving(partial(to_finish, journal.clock.pace, self._kind)):
            best, fault = self._reduced(program, whole.size, fault)
        with journal.step(Step.BLAME), journal.clock.undisturbed(WRITE_SECONDS):
            culprit = culprit_of(best, oracle.trial.operators(best), None, program)
            fault = journal.blame(replace(fault.stating(stage=self._stage(best)), culprits=(culprit,)))
        with journal.clock.undisturbed(WRITE_SECONDS), journal.step(Step.EMIT):
            details = self._details(best)
            if details is None:
                return None
            if (workaround := self._workaround(best)) is not None:
                fault = replace(fault, workaround=workaround)
            repro = write(best, details, ALWAYS, fault, journal)
            return Draft(repro, fault, data_of(repro, self._case)).keep(journal)

    def _start(self, whole: Program) -> Program | None:
        """The part of the graph to begin with; None if it is not found."""
        return whole

    @abstractmethod
    def _stage(self, program: Program) -> Stage:
        """The stage to blame."""

    @abstractmethod
    def _details(self, program: Program) -> Details | None:
        """What the repro asserts; None if a second measurement does not show the fault, or no repro can assert it."""

    def _workaround(self, program: Program) -> Workaround | None:
        """A setting under which the program does not show the fault, if known."""
        return None

    def _reduced(self, program: Program, size: int, fault: Fault) -> tuple[Program, Fault]:
        """The smallest program that shows the fault, with its reduction. ``size``: nodes of the whole graph."""
        journal, oracle = self._journal, self._measuring
        history: list[HistoryStep] = []
        start = Reduction(level="dynamo", nodes_before=size, nodes_after=program.size, lines_before=self._lines)

        def record(step: HistoryStep, best: Program) -> None:
            history.append(step)
            reached = {"nodes_after": step.nodes, "trials": oracle.trials}
            journal.record(replace(fault, reduction=start.model_copy(update=reached)))
            journal.progress(nodes=step.nodes, nodes_before=size, trials=oracle.trials, message=said(step.by))

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
        fault = replace(fault, reduction=start).counting(
            nodes_after=reduced.best.size,
            trials=oracle.trials,
            cache_hits=reduced.cache_hits,
            one_minimal=reduced.one_minimal,
            history=history,
            seconds=round(reduced.seconds, 2),
        )
        return reduced.best, journal.record(fault)
