"""What is done with a repro once there is one: verify, and behind that the steps that only add to the report, in the order of `Step`.

Verification decides what the repro is worth. All that comes after it only adds to the report, and what is not known in time stays
unknown there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
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
from minimizer.engine.output_code import generated_code
from minimizer.engine.program.regions import Region
from minimizer.engine.secondary import write_further
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.verify.clean_runs import VERIFY_RUNS, VERIFY_SECONDS, missing_module, verify
from minimizer.engine.verify.other_torches import compare
from minimizer.engine.witness import minifier
from minimizer.engine.witness.minifier import Testimony
from minimizer.errors import BudgetExceeded, ChildFailed, Skipped
from minimizer.options import Options
from minimizer.report.model import Report, Reproducibility, Verification
from minimizer.settings import Settings
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step

WITNESS_SECONDS = 120.0
"""PyTorch's own tools have their time whatever the repro took: they come last, and whoever does not want to wait stops before them."""
FIRMER = (
    "What could be reduced further fails among our trials and not in a process of its own, as where code reads memory that nobody "
    "has written: the reduction stopped short of that, and its last steps were judged in processes of their own."
)
SHARES: dict[Step, float] = {
    Step.DIAGNOSE: 0.30,
    Step.CODE: 0.10,
    Step.LAYERS: 0.15,
    Step.HEALTH: 0.20,
    Step.COMPARE: 0.10,
    Step.FURTHER: 0.15,
}
"""What each step behind a verified repro may take, as a share of the time that it took to have that repro; one gets what those
before it have left, too. Together they are 1: they take at most as long as the repro has taken."""
LEAST_SECONDS = 90.0
"""What they have together where the repro came sooner: a run of the script and a search among the compiler's parts take that."""
CODE_SECONDS = 30.0
"""What a run of the repro has at least: it imports torch, and compiles a few operators."""
CHEAP_SECONDS = 60.0
"""A survey that took no longer is worth a run more of a script without a repro, to see how healthy the compiled code is."""
SURVEY_RUNS = 2
"""How many runs of the script a survey takes at least: in eager, and compiled."""


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
        verification, complaints, result = self._verified(result)
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
        report.verification, holds = None, False
        try:
            with suppress(BudgetExceeded, ChildFailed):
                firm = result.firmer(self._fails)
                if firm is not None:
                    verification, _, firm = self._verified(firm)
                    holds = verification.holds
            return firm if holds else None
        finally:  # also where the owner stops it in its middle
            if not holds:
                report.take(known)
                result.keep(self.journal)

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
            timeout=min(VERIFY_SECONDS, max(FINISH_SECONDS * crowding(), self.journal.clock.left)),
            **more,
        )

    def _verified(self, result: Result) -> tuple[Verification, list[str], Result]:
        """The verification, what its runs complained of, and the result with the repro that they ran in the end."""
        with self.journal.step(Step.VERIFY):
            return self._run(result)

    def _run(self, result: Result) -> tuple[Verification, list[str], Result]:
        repro, complaints = result.repro, list[str]()
        check = partial(
            self._check, data=result.data, runs=VERIFY_RUNS, watch=self.journal.watch_owner, on_note=complaints.append
        )
        verification = check(repro)
        missing = missing_module(complaints)
        if missing is not None:
            # Our processes have imported more than the script has, so that the reduction could do without an import.
            repro = repro.importing(missing)
            result = replace(result, repro=repro)
            result.keep(self.journal)
            complaints.clear()
            verification = check(repro)
        if 0 < verification.failed_same < verification.runs and result.rewrite is not None:
            # It looked as if it always showed, and does not: compiled anew in one process, it may.
            rate = Reproducibility(failed=verification.failed_same, runs=verification.runs)
            repro = result.rewrite(rate)
            repro = repro.importing(missing) if missing is not None else repro
            result = replace(result, repro=repro)
            result.keep(self.journal)
            complaints.clear()
            verification = check(repro)
        report, reduction = self.report, self.report.reduction
        assert reduction is not None
        report.verification = verification
        self.journal.event("repro", lines=repro.lines, nodes=reduction.nodes_after, verified=verification.holds)
        return verification, complaints, result

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
        self.journal.decide()

    @contextmanager
    def adding(self, step: Step, *, least: float = 0.0) -> Iterator[None]:
        """Inside, a step that only adds to the report: what it does not come to in its share of the time stays unknown, and that is told.

        Behind a verified repro the owner of the job may skip it. It has ``least`` seconds where its share is smaller and the budget allows for it.
        """
        seconds = max(self.share(step), min(least, self.journal.clock.left))
        may_skip = nullcontext() if self._verified_at is None else self.journal.skippable(step)
        with self.journal.clock.within(seconds), self.journal.step(step), may_skip, suppress(ChildFailed):
            try:
                yield
            except Skipped:
                self.journal.note(f"Skipped by request while {step.doing}. What was not known by then stays unknown.")
            except BudgetExceeded as error:
                why = f"its share of the time ({seconds:.0f} s) was used up" if error.is_time else error
                self.journal.note(f"Stopped while {step.doing}: {why}. What was not known by then stays unknown.")
        self.journal.keep()

    def share(self, step: Step) -> float:
        """How many seconds a step may take that begins now: `SHARES` behind a verified repro, else what is left of the budget."""
        verified = self._verified_at
        if step is Step.WITNESS:
            return self.journal.clock.left if verified is None else min(WITNESS_SECONDS, self.journal.clock.left)
        if verified is None:
            return max(0.0, self.journal.clock.left - FINISH_SECONDS)
        whole = min(max(verified, LEAST_SECONDS), self.journal.clock.budget - verified)
        until = verified + whole * sum(SHARES[one] for one in SHARES if list(Step).index(one) <= list(Step).index(step))
        return max(0.0, until - self.journal.clock.elapsed)

    def has_time(self, step: Step) -> bool:
        """Whether a step that runs the script once more may come to its end; it is noted where it may not."""
        survey = self.report.timings.get(Step.SURVEY, self.report.timings.get(Step.EXACT, 0.0))
        if self._verified_at is None:
            return survey <= max(CHEAP_SECONDS, self.journal.clock.left / 4)
        fits = survey / SURVEY_RUNS <= self.share(step)
        if not fits:
            self.journal.note(f"Not begun for want of time, since it runs the script once more: {step.doing}.")
        return fits

    @property
    def _verified_at(self) -> float | None:
        """When the repro was verified, in seconds since the job began; None if it is not."""
        verification = self.report.verification
        return self.journal.decided_at if verification is not None and verification.holds else None

    def diagnose(self, patient: Patient | None, find_workaround: Callable[[], None] | None) -> None:
        """The part of the compiler to blame, and a workaround."""
        if self.report.verification is None or not self.report.verification.holds:
            return
        if patient is not None:
            with self.adding(Step.DIAGNOSE):
                seconds = min(DIAGNOSE_SECONDS, self.options.budget / 10) * crowding()
                diagnose(patient, self.journal, seconds=min(seconds, self.journal.clock.left))
        elif find_workaround is not None:
            with self.adding(Step.DIAGNOSE):
                find_workaround()

    def read_code(self, result: Result) -> None:
        """The code that Inductor generates for the culprit, where it is that code which is wrong."""
        report, verification = self.report, self.report.verification
        if verification is None or not verification.holds or report.failure is None:
            return
        if report.failure.stage not in (Stage.INDUCTOR, Stage.DECOMPOSITION):
            return
        seconds = max(self.share(Step.CODE), min(CODE_SECONDS, self.journal.clock.left))
        with self.adding(Step.CODE, least=CODE_SECONDS):
            report.generated_code = generated_code(result.repro, result.data, self.place, self.journal, seconds=seconds)

    def describe(self, result: Result) -> list[Region]:
        """The table of layers, and the graph around the culprit. Returns regions of it that turn out to be wrong by themselves too."""
        suspects: list[Region] = []
        if result.found is not None:
            with self.adding(Step.LAYERS):
                suspects = describe(result.found.program, result.found.oracle, self.journal)
        return suspects

    def examine(self) -> None:
        """How healthy the compiled code is, where a run more costs little and comes to an end."""
        failure, health = self.report.failure, self.report.health
        if failure is not None and failure.kind in (Kind.CRASH, Kind.HANG):
            health.untimed = "the script does not come to its end"
            return
        if not self.has_time(Step.HEALTH):
            health.untimed = "there was no time for one more run of the script"
            return
        health.untimed = "the run that times calls did not come to its end"
        with self.adding(Step.HEALTH):
            examine(self.surveys, self.place, self.journal)

    def compare(self, result: Result) -> None:
        """The repro in every other torch that is configured."""
        report, verification = self.report, self.report.verification
        toolchains = self.settings.interpreters
        if not toolchains or verification is None or not verification.holds:
            return
        with self.adding(Step.COMPARE):
            jobs = self.settings.trial_jobs
            report.versions = compare(result.repro, result.data, self.place, toolchains, self.journal, jobs=jobs)

    def look_further(self, result: Result, suspects: Sequence[Region]) -> None:
        """Repros of the other culprits; ``suspects`` are known to fail by themselves."""
        if result.found is not None:
            with self.adding(Step.FURTHER):
                write_further(
                    result.found,
                    suspects,
                    surveys=self.surveys,
                    place=self.place,
                    journal=self.journal,
                    jobs=self.settings.trial_jobs,
                )

    def hear_witnesses(self) -> list[Testimony]:
        """Rerun the script under PyTorch's own minifier; what it says is kept, and never decides."""
        failure = self.report.failure
        testimonies = minifier.hear(
            self.place,
            self.script.resolve(),
            self.options.args,
            failure.kind if failure is not None else Kind.WRONG_OUTPUT,
            seconds=lambda: min(WITNESS_SECONDS, self.journal.clock.left),
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
