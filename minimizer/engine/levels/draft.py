"""The result of a search: an unverified repro, its data, and the search itself, to write another repro if this one
fails.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from minimizer.engine.between.answer import Found
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.diagnose import Patient
from minimizer.engine.emit import Details, Repro
from minimizer.engine.findings import Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import Checkpoint, data_of, keep_repro, write
from minimizer.engine.levels.from_outcomes import details_of, dispute
from minimizer.engine.localize.localize import Localized
from minimizer.engine.oracle.oracle import Measured, Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.survey.cases import Case
from minimizer.errors import ChildFailed
from minimizer.report.model import Reproducibility, Verification
from minimizer.vocabulary import Kind

ALWAYS = Reproducibility(failed=1, runs=1)


@dataclass(frozen=True)
class GraphCulprit:
    """The first culprit: its case, the graph it was found in, its place in it, and its minimal program.

    ``program`` has gradients if they are at fault or the script trains: a further fault may be in a gradient.
    """

    case: Case
    oracle: Oracle
    program: Program
    located: Localized
    reduced: Program


@dataclass(frozen=True)
class Way:
    """The steps of a search to its minimal program: the start of the reduction, and every program accepted since.

    ``shown``: the outcome of the smallest one; None if unknown.
    """

    start: Checkpoint
    accepted: tuple[Program, ...]
    shown: Outcome | None


@dataclass(frozen=True)
class CleanRuns:
    """The runs of a repro with its data in clean processes: the result, notes on them, and the import that they lacked."""

    repro: Repro
    data: bytes | None
    verification: Verification
    notes: list[str]
    missing_module: str | None = None


@dataclass(frozen=True)
class Draft:
    """A repro that is not verified yet.

    Args:
        repro: its text and idiom.
        known: the findings on the fault that it shows.
        data: the content of its data file, if it needs one.
        details: how its program fails, to write the repro again; None if it is already written for a flaky failure.
        way: the search that found it, to fall back to a less reduced program; None if there is none.
        found: the culprit, from which the search for further ones starts.
        disputed: why this may be no failure, if only the script's own check calls it one.
        patient: the object of the diagnosis, if changes can be tried on it.
        difference: the difference between graphs that it shows; its diagnosis is a search for a workaround.
        clean_runs: those of this repro or of one that it replaced; None if there were none.
    """

    repro: Repro
    known: Fault
    data: bytes | None = None
    details: Details | None = None
    way: Way | None = None
    found: GraphCulprit | None = None
    disputed: str | None = None
    patient: Patient | None = None
    difference: Found | None = None
    clean_runs: CleanRuns | None = None

    @property
    def own_clean_runs(self) -> CleanRuns | None:
        """The clean runs of just this repro; None if there were none."""
        known = self.clean_runs
        return known if known is not None and (known.repro, known.data) == (self.repro, self.data) else None

    @property
    def fault(self) -> Fault:
        """The fault that it shows, with the size of this repro."""
        return self.known.counting(lines_after=self.repro.lines)

    def keep(self, journal: Journal) -> Draft:
        """Publish the repro with its fault, so that it can be downloaded during its verification."""
        journal.record(self.fault)
        keep_repro(self.repro, self.data, journal)
        journal.tell_repro(self.fault, verified=False)
        return self


class Writer:
    """Writes repros of a case's programs."""

    def __init__(self, case: Case, oracle: Oracle, journal: Journal) -> None:
        self._case, self._oracle, self._journal = case, oracle, journal

    def draft(self, program: Program, measured: Measured, rate: Reproducibility, fault: Fault) -> Draft:
        """Write the repro of a reduced program that shows this fault, and publish it at once."""
        details = self._details(program, measured.outcome)
        if disputed := self._disputed(program, measured):
            details["disputed"] = disputed
        repro = write(program, details, rate, fault, self._journal)
        again = details if always(rate) else None
        draft = Draft(repro, fault, data_of(repro, self._case), again, disputed=details.get("disputed"))
        return draft.keep(self._journal)

    def candidate(self, fault: Fault, program: Program) -> tuple[Repro, bytes | None] | None:
        """The repro and data of a program of the last judged batch; None if it did not fail or cannot be written."""
        outcome = self._oracle.shown(program)
        with suppress(SyntaxError, ChildFailed):
            if outcome is not None:
                repro = write(program, self._details(program, outcome), ALWAYS, fault, self._journal)
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


def always(rate: Reproducibility) -> bool:
    """Whether the failure showed in every run."""
    return rate.failed == rate.runs
