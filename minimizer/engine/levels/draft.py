"""The result of a search: a repro that is not verified yet, its data, and ways to write another if it does not hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from minimizer.engine.child.outcome import Outcome
from minimizer.engine.emit import Details, Repro, emit
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import data_of, keep_draft
from minimizer.engine.levels.from_outcomes import details_of, dispute
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.survey.cases import Case
from minimizer.engine.verify.clean_process_oracle import Fails
from minimizer.errors import ChildFailed
from minimizer.report.model import Reproducibility
from minimizer.vocabulary import Kind

ALWAYS = Reproducibility(failed=1, runs=1)


@dataclass(frozen=True)
class Found:
    """The first culprit: its case, the graph it was found in, its place there, and its minimal program.

    ``program`` has gradients if they are at fault or the script wants them: a further fault may be in one.
    """

    case: Case
    oracle: Oracle
    program: Program
    located: Localized
    reduced: Program


@dataclass(frozen=True)
class Result:
    """A repro that is not verified yet.

    Args:
        repro: its text and idiom.
        data: the content of its data file, if it needs one.
        rewrite: writes the repro for a flaky failure of the given rate; None if it is written for a flaky one already.
        firmer: reduces less far, to a repro that fails in a clean process too; itself None, or returning None, if there
            is none.
        found: the culprit, from which the search for further ones starts.
        disputed: why this may be no failure, where only the script's own check calls it one.
    """

    repro: Repro
    data: bytes | None = None
    rewrite: Callable[[Reproducibility], Repro] | None = None
    firmer: Callable[[Fails], Result | None] | None = None
    found: Found | None = None
    disputed: str | None = None

    def keep(self, journal: Journal) -> None:
        """Publish the repro, so that it can be downloaded while it is being verified."""
        keep_draft(self.repro, self.data, journal)


class Writer:
    """Writes repros of a case's programs, from the failure and culprits that the journal's fault has at that time."""

    def __init__(self, case: Case, oracle: Oracle, journal: Journal) -> None:
        self._case, self._oracle, self._journal = case, oracle, journal

    def result(self, program: Program, measured: Measured, rate: Reproducibility) -> Result:
        """Write the repro of a reduced program, and publish it at once."""
        details = self._details(program, measured.outcome)
        if disputed := self._disputed(program, measured):
            details["disputed"] = disputed
        write = partial(self._write, program, details)
        repro = write(rate)
        rewrite = write if always(rate) else None
        result = Result(repro, data_of(repro, self._case), rewrite, disputed=details.get("disputed"))
        result.keep(self._journal)
        return result

    def draft(self, program: Program) -> tuple[Repro, bytes | None] | None:
        """The repro and data of a program of the last batch judged; None if it did not fail or cannot be written."""
        outcome = self._oracle.shown(program)
        with suppress(SyntaxError, ChildFailed):
            if outcome is not None:
                repro = self._write(program, self._details(program, outcome), ALWAYS)
                return repro, data_of(repro, self._case)
        return None

    def _details(self, program: Program, outcome: Outcome) -> Details:
        signature = self._case.signature
        details = details_of(program, outcome, self._case.tolerance)
        if signature.kind is Kind.HANG and signature.where:
            details["stuck_in"] = signature.where.rpartition(":")[2]
        if signature.kind is Kind.CRASH and (raised := self._oracle.raised_in_eager(program)):
            details["eager_error"] = raised
        return details

    def _disputed(self, program: Program, measured: Measured) -> str | None:
        if self._case.tolerance is None:
            return None
        (judged,) = self._oracle.answer([replace(self._oracle.request(program), tolerance=None)])
        return dispute(measured.outcome, judged)

    def _write(self, program: Program, details: Details, rate: Reproducibility) -> Repro:
        fault, environment = self._journal.fault, self._journal.report.environment
        assert fault.failure is not None
        return emit(program, fault.failure, fault.culprits, environment=environment, rate=rate, details=details)


def always(rate: Reproducibility) -> bool:
    """Whether the failure showed in every run."""
    return rate.failed == rate.runs
