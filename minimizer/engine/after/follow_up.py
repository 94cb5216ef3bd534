"""The steps that follow a repro, in the order of `Step`: verify, then those that only add to the report.

Verification decides the job's status. Each later step has a share of the time, and leaves its part of the report empty
if that is not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from minimizer.engine import fold
from minimizer.engine.after.secondary import write_further
from minimizer.engine.budget.patience import (
    CHEAP_SECONDS,
    CODE_SECONDS,
    DIAGNOSE_SECONDS,
    FOLLOW_UP_SECONDS,
    RUNS_OF_DIAGNOSIS,
    SHARES,
    SURVEY_RUNS,
    VERIFY_RUNS,
    VERIFY_SECONDS,
    WITNESS_SECONDS,
    WITNESSES_SECONDS,
)
from minimizer.engine.child.environment import Place
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.diagnose import Patient, diagnose
from minimizer.engine.emit import Repro
from minimizer.engine.findings import Described, Diagnosed
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Result
from minimizer.engine.levels.from_outcomes import verdict_sentence
from minimizer.engine.measure.health_run import examine
from minimizer.engine.measure.layer_table import describe
from minimizer.engine.output_code import generated_code
from minimizer.engine.program.regions import Region
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.verify.clean_runs import missing_module, verify
from minimizer.engine.verify.other_torches import compare
from minimizer.engine.witness import minifier
from minimizer.engine.witness.minifier import Testimony
from minimizer.errors import BudgetExceeded, ChildFailed, Skipped
from minimizer.options import Options
from minimizer.report.model import Report, Reproducibility, Verification, Workaround
from minimizer.settings import Settings
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step

FIRMER = (
    "A smaller program failed in our forked trials but passed in a fresh process, as code does that reads uninitialised memory. "
    "This repro is the smallest that also fails in a fresh process."
)
MAY_SHRINK = "The budget ended before it was minimal: a larger --budget may shrink it further."
FIRST_STEPS = (Step.LOCALIZE, Step.REDUCE, Step.BLAME, Step.EMIT, Step.VERIFY)
"""The steps of the first repro: the search for further ones has as long as they took at least."""


def _out_of_time(seconds: float) -> str:
    """Why a step that had so many seconds was stopped."""
    return f"its share of the time ({seconds:.0f} s) was used up" if round(seconds) else "no time was left for it"


@dataclass(frozen=True)
class FollowUp:
    """The steps of one job after its repro, in their order."""

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
        """Verify the repro in clean processes; rewrite it if it lacks an import or turns out to be flaky.

        Returns the result that was verified in the end: one reduced less far, if the first fails in our trials only.
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
        """A result reduced less far that holds in clean processes; None, and the fault as it was, if there is none."""
        if result.firmer is None:
            return None
        known, holds = self.journal.fault, False
        self.journal.fault = replace(known, verification=None)
        try:
            with suppress(BudgetExceeded, ChildFailed):
                firm = result.firmer(self._fails)
                if firm is not None:
                    verification, _, firm = self._verified(firm)
                    holds = verification.holds
            return firm if holds else None
        finally:  # also where the owner stops it in its middle
            if not holds:
                self.journal.fault = known
                result.keep(self.journal)

    def _fails(self, repro: Repro, data: bytes | None) -> bool:
        """Whether the repro of an earlier program holds in clean processes, with one run less than a verification."""
        return self._check(repro, data, runs=VERIFY_RUNS - 1, watch=self.journal.watch).holds

    def _check(self, repro: Repro, data: bytes | None, **more: Any) -> Verification:
        return verify(
            repro,
            data,
            sandbox=self.place.sandbox,
            python=self.place.python,
            read=self.place.packages,
            headers=self.place.headers,
            scratch=self.place.private("verify"),
            timeout=VERIFY_SECONDS,
            left=lambda: self.journal.clock.left,
            **more,
        )

    def _verified(self, result: Result) -> tuple[Verification, list[str], Result]:
        """Verify a result, as a step of the job: the verification, notes on its runs, and the result as it was verified in the end."""
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
        is_flaky = 0 < verification.failed_same < verification.runs and not verification.lacked_time
        if is_flaky and result.rewrite is not None:
            # The failure is flaky after all: the rewritten repro compiles again and again in one process.
            rate = Reproducibility(failed=verification.failed_same, runs=verification.runs)
            repro = result.rewrite(rate)
            repro = repro.importing(missing) if missing is not None else repro
            result = replace(result, repro=repro)
            result.keep(self.journal)
            complaints.clear()
            verification = check(repro)
        self.journal.fault = replace(self.journal.fault, verification=verification)
        self.journal.tell_repro(verified=verification.holds)
        return verification, complaints, result

    def _decide(self, result: Result) -> None:
        fault, verification = self.journal.fault, self.journal.fault.verification
        assert verification is not None
        said = [verdict_sentence(fault)]
        status, reason = Status.MINIMIZED, Reason.DISPUTED if result.disputed else None
        if not verification.holds:
            status, reason = Status.PARTIAL, Reason.BUDGET if verification.lacked_time else Reason.NOT_VERIFIED
        elif fault.reduction is not None and not fault.reduction.one_minimal:
            said.append(MAY_SHRINK)
        if result.disputed:
            said.append(result.disputed)
        self.journal.fault = replace(fault, status=status, reason=reason, summary=" ".join(said))
        self.journal.decide()

    @contextmanager
    def adding(self, step: Step, *, least: float = 0.0) -> Iterator[None]:
        """Run a step that only adds to the report, within its share of the time; a note says so if it was cut short.

        Behind a verified repro the owner of the job may skip it. ``least``: seconds that it has even if its share is smaller, as far
        as the budget allows.
        """
        seconds = max(self.share(step), min(least, self.journal.clock.left))
        may_skip = nullcontext() if self._verified_at is None else self.journal.skippable(step)
        with self.journal.clock.within(seconds), self.journal.step(step), may_skip, suppress(ChildFailed):
            try:
                yield
            except Skipped:
                self.journal.note(f"Skipped by request while {step.doing}. What was not known by then stays unknown.")
            except BudgetExceeded as error:
                why = _out_of_time(seconds) if error.is_time else error
                self.journal.note(f"Stopped while {step.doing}: {why}. What was not known by then stays unknown.")
        self.journal.keep()

    def share(self, step: Step) -> float:
        """Seconds for a step that begins now: by `SHARES` after a verified repro, else what is left but `WITNESSES_SECONDS`."""
        verified = self._verified_at
        if step is Step.WITNESS:
            return self.journal.clock.left if verified is None else min(WITNESS_SECONDS, self.journal.clock.left)
        if verified is None:
            return max(0.0, self.journal.clock.left - WITNESSES_SECONDS)
        whole = min(max(verified, FOLLOW_UP_SECONDS), self.journal.clock.budget - verified)
        until = verified + whole * sum(SHARES[one] for one in SHARES if list(Step).index(one) <= list(Step).index(step))
        return max(0.0, until - self.journal.clock.elapsed)

    def has_time(self, step: Step) -> bool:
        """Whether there is time for a step that runs the script again; after a verified repro a note says so if not."""
        if self._verified_at is None:
            return self._run_seconds * SURVEY_RUNS <= max(CHEAP_SECONDS, self.journal.clock.left / 4)
        fits = self._run_seconds <= self.share(step)
        if not fits:
            self.journal.note(f"Not begun for want of time, since it runs the script once more: {step.doing}.")
        return fits

    @property
    def _run_seconds(self) -> float:
        """Seconds of a run of the script, at most."""
        timings = self.report.timings
        return timings.get(Step.SURVEY, timings.get(Step.EXACT, 0.0)) / SURVEY_RUNS

    @property
    def _verified_at(self) -> float | None:
        """Seconds from the start of the job to a verified repro; None if there is none."""
        return self.journal.decided_at if self.journal.fault.holds else None

    def diagnose(self, patient: Patient | None, find_workaround: Callable[[], Workaround | None] | None) -> None:
        """Find the part of the compiler to blame, and a workaround; only for a verified repro."""
        if not self.journal.fault.holds:
            return
        if patient is not None:
            with self.adding(Step.DIAGNOSE, least=RUNS_OF_DIAGNOSIS * self._run_seconds):
                seconds = min(DIAGNOSE_SECONDS, self.options.budget / 10) * crowding()
                diagnose(
                    patient,
                    fold.failing(self.journal.fault, self.report.environment),
                    self.journal,
                    seconds=min(seconds, self.journal.clock.left),
                    keep=self._take_diagnosis,
                )
        elif find_workaround is not None:
            self.work_around(find_workaround)

    def _take_diagnosis(self, found: Diagnosed) -> None:
        self.journal.fault = fold.diagnosed(self.journal.fault, found)

    def work_around(self, find: Callable[[], Workaround | None]) -> None:
        """Find a workaround for a fault that no graph shows."""
        with self.adding(Step.DIAGNOSE):
            found = find()
            self.journal.fault = replace(self.journal.fault, workaround=found)
            if found is not None and found.verified:
                self.journal.event("workaround", workaround=found.model_dump(mode="json"))

    def read_code(self, result: Result) -> None:
        """The code that Inductor generates for the culprit, where it is that code which is wrong."""
        fault = self.journal.fault
        if not fault.holds or fault.failure is None or fault.failure.stage not in (Stage.INDUCTOR, Stage.DECOMPOSITION):
            return
        operators = [op for culprit in self.report.roots for op in culprit.ops]
        with self.adding(Step.CODE, least=CODE_SECONDS):
            code = generated_code(
                result.repro,
                result.data,
                self.place,
                self.journal,
                operators,
                blame=fault.blame,
                seconds=self.journal.clock.left,  # of the step's share
            )
            self.journal.fault = replace(self.journal.fault, generated_code=code)

    def describe(self, result: Result) -> list[Region]:
        """Fill in the layer table and the graph around the culprit; returns further regions wrong in isolation."""
        suspects: list[Region] = []
        if result.found is not None:
            with self.adding(Step.LAYERS, least=self._run_seconds):
                culprits = self.journal.fault.culprits
                suspects = describe(
                    result.found.program,
                    result.found.oracle,
                    self.journal,
                    culprit=culprits[0].nodes if culprits else [],
                    known=self.report.layers,
                    keep=self._take_description,
                )
        return suspects

    def _take_description(self, found: Described) -> None:
        if found.layers is not None:
            fold.described(self.report, found.layers)
        if found.graph is not None:
            self.journal.fault = replace(self.journal.fault, graph=found.graph)

    def examine(self) -> None:
        """Measure the health of the compiled code in one more run of the script, if it ends and there is time."""
        failure = self.journal.fault.failure
        if failure is not None and failure.kind in (Kind.CRASH, Kind.HANG):
            self._leave_untimed("the script does not come to its end")
            return
        if not self.has_time(Step.HEALTH):
            self._leave_untimed("there was no time for one more run of the script")
            return
        self._leave_untimed("the run that times calls did not come to its end")
        with self.adding(Step.HEALTH):
            examine(self.surveys, self.place, self.journal, keep=partial(fold.examined, self.report))

    def _leave_untimed(self, why: str) -> None:
        fold.examined(self.report, self.report.health.model_copy(update={"untimed": why}))

    def compare(self, result: Result) -> None:
        """Run a verified repro in every other torch that is configured."""
        toolchains = self.settings.interpreters
        if not toolchains or not self.journal.fault.holds:
            return
        with self.adding(Step.COMPARE):
            jobs = self.settings.trial_jobs
            found = compare(result.repro, result.data, self.place, toolchains, self.journal, jobs=jobs)
            own = self.report.environment.get("torch", "")
            self.journal.fault = fold.compared(self.journal.fault, found, own)

    def look_further(self, result: Result, suspects: Sequence[Region]) -> None:
        """Write repros of the secondary culprits; ``suspects`` are regions known to fail in isolation."""
        if result.found is not None:
            timings = self.report.timings
            with self.adding(Step.FURTHER, least=sum(timings.get(step, 0.0) for step in FIRST_STEPS)):
                write_further(
                    result.found,
                    suspects,
                    surveys=self.surveys,
                    place=self.place,
                    journal=self.journal,
                    jobs=self.settings.trial_jobs,
                )

    def hear_witnesses(self) -> list[Testimony]:
        """Rerun the script under PyTorch's own minifier; the report quotes what it found, and the verdict stays."""
        failure = self.journal.fault.failure
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
        fold.heard(self.report, [testimony.witness(fails=failure is not None) for testimony in testimonies])
        for testimony in testimonies:
            self.journal.log(testimony.log)
            if testimony.dump is not None:
                self.journal.sink.artifact(f"witness-{testimony.after}.txt", testimony.dump.launcher.encode())
        return testimonies
