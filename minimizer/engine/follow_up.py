"""What is done with a repro once there is one: verify → diagnose → measure → compare versions → hear witnesses.

Verification decides what the repro is worth. All that comes after it only adds to the report, and what is not known in time stays
unknown there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from minimizer.engine.child.environment import Place
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.diagnose import DIAGNOSE_SECONDS, Patient, diagnose
from minimizer.engine.draft import Result
from minimizer.engine.emit import Repro
from minimizer.engine.from_outcomes import verdict_sentence
from minimizer.engine.graph_search import FINISH_SECONDS
from minimizer.engine.journal import Journal
from minimizer.engine.measure.health_run import examine
from minimizer.engine.measure.layer_table import describe
from minimizer.engine.program.regions import Region
from minimizer.engine.secondary import Found
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.verify.clean_runs import VERIFY_RUNS, VERIFY_SECONDS, missing_module, verify
from minimizer.engine.verify.other_torches import compare
from minimizer.engine.witness import minifier
from minimizer.engine.witness.minifier import Testimony
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.options import Options
from minimizer.report.model import Report, Reproducibility, Verification
from minimizer.settings import Settings
from minimizer.vocabulary import Kind, Reason, Status, Step

WITNESS_SECONDS = 120.0
FIRMER = (
    "What could be reduced further fails among our trials and not in a process of its own, as where code reads memory that nobody "
    "has written: the reduction stopped short of that, and its last steps were judged in processes of their own."
)
CHEAP_SECONDS = 60.0
"""A survey that took no longer is worth a run more, to see how healthy the compiled code is."""


@dataclass(frozen=True)
class FollowUp:
    """The steps of one job behind its repro, in their order."""

    script: Path
    place: Place
    surveys: Surveys
    journal: Journal
    options: Options
    settings: Settings

    @property
    def report(self) -> Report:
        return self.journal.report

    def verify(self, result: Result) -> Result:
        """Run the repro in clean processes, and write it anew where they say that it needs more than it has.

        Returns what was verified in the end: a result reduced less far, where the first one fails in our trials only.
        """
        verification, complaints = self._verified(result)
        never_fails = not (verification.failed_same or verification.stopped) and verification.passes_with_compiler_off
        if never_fails and (firm := self._firmer(result)) is not None:
            self.journal.note(FIRMER)
            self._decide(firm)
            return firm
        for complaint in complaints:
            self.journal.note(complaint)
        self._decide(result)
        return result

    def _firmer(self, result: Result) -> Result | None:
        """A result that holds in clean processes, verified; without one all stays as it was."""
        if result.firmer is None:
            return None
        report, known = self.report, self.report.model_copy(deep=True)
        report.verification = None
        with suppress(BudgetExceeded, ChildFailed):
            firm = result.firmer(self._fails)
            if firm is not None and self._verified(firm)[0].holds:
                return firm
        for name in ("failure", "culprits", "ladder", "reduction", "verification"):
            setattr(report, name, getattr(known, name))
        result.keep(self.journal)
        return None

    def _fails(self, repro: Repro, data: bytes | None) -> bool:
        """Whether a repro of a step on the way holds in two clean processes."""
        return self._check(repro, data, runs=VERIFY_RUNS - 1, watch=self.journal.watch).holds

    def _check(self, repro: Repro, data: bytes | None, **more: Any) -> Verification:
        return verify(
            repro,
            data,
            sandbox=self.place.sandbox,
            python=self.place.python,
            scratch=self.place.private("verify"),
            timeout=min(VERIFY_SECONDS, max(FINISH_SECONDS * crowding(), self.journal.left)),
            **more,
        )

    def _verified(self, result: Result) -> tuple[Verification, list[str]]:
        """The verification, and what its runs complained of."""
        with self.journal.step(Step.VERIFY):
            return self._run(result)

    def _run(self, result: Result) -> tuple[Verification, list[str]]:
        repro, complaints = result.repro, list[str]()
        check = partial(
            self._check, data=result.data, runs=VERIFY_RUNS, watch=self.journal.watch_owner, on_note=complaints.append
        )
        verification = check(repro)
        missing = missing_module(complaints)
        if missing is not None:
            # Our processes have imported more than the script has, so that the reduction could do without an import.
            repro = repro.importing(missing)
            replace(result, repro=repro).keep(self.journal)
            complaints.clear()
            verification = check(repro)
        if 0 < verification.failed_same < verification.runs and result.rewrite is not None:
            # It looked as if it always showed, and does not: compiled anew in one process, it may.
            rate = Reproducibility(failed=verification.failed_same, runs=verification.runs)
            repro = result.rewrite(rate)
            repro = repro.importing(missing) if missing is not None else repro
            replace(result, repro=repro).keep(self.journal)
            complaints.clear()
            verification = check(repro)
        report, reduction = self.report, self.report.reduction
        assert reduction is not None
        report.verification = verification
        self.journal.event("repro", lines=repro.lines, nodes=reduction.nodes_after, verified=verification.holds)
        return verification, complaints

    def _decide(self, result: Result) -> None:
        report, verification = self.report, self.report.verification
        assert report.reduction is not None and verification is not None
        report.summary = verdict_sentence(report)
        if not verification.holds:
            report.status, report.reason = Status.PARTIAL, Reason.NOT_VERIFIED
        elif not report.reduction.one_minimal:
            report.status, report.reason = Status.PARTIAL, Reason.BUDGET
            report.summary += " The budget ended before it was minimal: a larger --budget may shrink it further."
        else:
            report.status, report.reason = Status.MINIMIZED, Reason.DISPUTED if result.disputed else None
        if result.disputed:
            report.summary += f" {result.disputed}"

    def diagnose(self, result: Result, patient: Patient | None) -> list[Region]:
        """All that is worth knowing beside the repro. Returns regions of the graph that turn out to be wrong by themselves too."""
        if patient is not None and self.report.verification is not None and self.report.verification.holds:
            with self.journal.step(Step.DIAGNOSE):
                seconds = min(DIAGNOSE_SECONDS, self.options.budget / 10) * crowding()
                diagnose(patient, self.journal, seconds=seconds)
        suspects = self._describe(result.found) if result.found is not None else []
        self.examine()
        self._compare_versions(result)
        return suspects

    def _describe(self, found: Found) -> list[Region]:
        """The table of layers, and the graph around the culprit: what is not known in time stays unknown."""
        suspects: list[Region] = []
        step = self.journal.step(Step.MEASURE)
        with self.journal.reserving(FINISH_SECONDS), step, suppress(BudgetExceeded, ChildFailed):
            suspects = describe(found.program, found.oracle, self.journal)
        self.journal.keep()
        return suspects

    def examine(self) -> None:
        """How healthy the compiled code is, where a run more costs little and comes to an end."""
        report = self.report
        if report.failure is not None and report.failure.kind in (Kind.CRASH, Kind.HANG):
            report.health.untimed = "the script does not come to its end"
            return
        seconds = report.timings.get(Step.SURVEY, report.timings.get(Step.EXACT, 0.0))
        if seconds > max(CHEAP_SECONDS, self.journal.left / 4):
            report.health.untimed = f"one more run of the script may take the {seconds:.0f} s that its survey took"
            return
        report.health.untimed = "the run that times calls did not come to its end"
        with self.journal.reserving(FINISH_SECONDS), self.journal.step(Step.MEASURE), suppress(BudgetExceeded):
            examine(self.surveys, self.place, self.journal)
        self.journal.keep()

    def _compare_versions(self, result: Result) -> None:
        """The repro in every other torch that is configured."""
        report, verification = self.report, self.report.verification
        toolchains = self.settings.interpreters
        if not toolchains or verification is None or not verification.holds:
            return
        with self.journal.reserving(FINISH_SECONDS), self.journal.step(Step.VERIFY), suppress(BudgetExceeded):
            jobs = self.settings.trial_jobs
            report.versions = compare(result.repro, result.data, self.place, toolchains, self.journal, jobs=jobs)
        self.journal.keep()

    def hear_witnesses(self) -> list[Testimony]:
        """Rerun the script under PyTorch's own minifier; what it says is kept, and never decides."""
        failure = self.report.failure
        testimonies = minifier.hear(
            self.place,
            self.script.resolve(),
            self.options.args,
            failure.kind if failure is not None else Kind.WRONG_OUTPUT,
            seconds=lambda: min(WITNESS_SECONDS, self.journal.left),
            parallel=self.settings.trial_jobs,
            watch=self.journal.watch_owner,
            nproc=self.options.nproc,
            message=failure.message if failure is not None else "",
        )
        for testimony in testimonies:
            self.report.witnesses.append(testimony.witness(fails=failure is not None))
            self.journal.log(testimony.log)
            if testimony.dump is not None:
                self.journal.sink.artifact(f"witness-{testimony.after}.txt", testimony.dump.launcher.encode())
        return testimonies
