"""The steps after a repro, in the order of `Step`: verify, then those that only add to the report.

Verification decides the job's status. Each later step has a share of the time, and leaves its part of the report empty
if the share does not suffice.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from minimizer.engine import fold
from minimizer.engine.advice import drift
from minimizer.engine.advice.remedies import advise, known_of
from minimizer.engine.after.further_repros import write_further
from minimizer.engine.budget.patience import (
    CHEAP_SECONDS,
    CHEAP_SHARE,
    CODE_SECONDS,
    DIAGNOSE_SECONDS,
    DIAGNOSE_SHARE,
    FOLLOW_UP_SECONDS,
    RUNS_OF_DIAGNOSIS,
    SHARES,
    SURVEY_RUNS,
    VERIFY_RUNS,
    WITNESS_SECONDS,
    WITNESSES_SECONDS,
    WORTHY_SHARE,
)
from minimizer.engine.child.environment import Place
from minimizer.engine.child.watchdog import crowding
from minimizer.engine.diagnose import Patient, diagnose
from minimizer.engine.emit import Repro
from minimizer.engine.findings import Described, Diagnosed, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.checkpoint import write
from minimizer.engine.levels.draft import CleanRuns, Draft
from minimizer.engine.levels.from_outcomes import verdict_sentence
from minimizer.engine.levels.parting import EndsWell
from minimizer.engine.measure.health_run import examine
from minimizer.engine.measure.layer_table import describe
from minimizer.engine.output_code import generated_code
from minimizer.engine.program.regions import Region
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.verify.clean_runs import verify_in
from minimizer.engine.verify.other_torches import Releases, compare, compare_releases
from minimizer.engine.witness import minifier
from minimizer.engine.witness.minifier import Testimony
from minimizer.errors import BudgetExceeded, ChildFailed, Skipped
from minimizer.options import Options
from minimizer.report.model import Report, Reproducibility, Verification, Workaround
from minimizer.settings import Settings
from minimizer.vocabulary import Kind, Reason, Stage, Status, Step

MAY_SHRINK = "The budget ended before it was minimal: a larger --budget may shrink it further."
FIRST_STEPS = (Step.LOCALIZE, Step.REDUCE, Step.BLAME, Step.EMIT, Step.VERIFY)
"""The steps of the first repro; the search for further ones gets at least as much time as they took."""


def _out_of_time(seconds: float) -> str:
    """The reason why a step with so many seconds was stopped."""
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
    releases: Releases | None = None
    """Further releases of torch to run the repro in."""

    @property
    def report(self) -> Report:
        return self.journal.report

    def fails(self, repro: Repro, data: bytes | None) -> bool:
        """Whether the repro of an earlier program fails in clean processes, by one run less than a verification."""
        clock, watch = self.journal.clock, self.journal.watch
        return verify_in(self.place, repro, data, clock, runs=VERIFY_RUNS - 1, watch=watch).verification.holds

    def if_it_holds(self, draft: Draft) -> Draft | None:
        """A draft with its clean runs, for `verified` to use; None if it does not fail in them.

        A draft that lacks an import, which `verified` adds, may still fail; so may one whose runs lacked time, and
        `verified` runs that one again.
        """
        self.journal.record(draft.fault)
        with self.journal.step(Step.VERIFY):
            runs = self._clean_runs(draft, self.journal.watch)
        if runs.verification.lacked_time:
            return draft
        may_hold = runs.verification.holds or runs.missing_module is not None
        return replace(draft, clean_runs=runs) if may_hold else None

    def verified(self, draft: Draft) -> tuple[Verification, list[str], Draft]:
        """Verify a draft in clean processes; rewrite it if it lacks an import or turns out to be flaky.

        Returns the verification, notes on its runs, and the draft that was verified in the end, with that in its fault.
        """
        self.journal.record(draft.fault)
        with self.journal.step(Step.VERIFY):
            runs = self._seen(draft)
            missing = runs.missing_module
            if missing is not None:
                # The warm child has imported more than the script, so the reduction could drop an import.
                draft = replace(draft, repro=draft.repro.importing(missing)).keep(self.journal)
                runs = self._seen(draft)
            seen = runs.verification
            is_flaky = 0 < seen.failed_same < seen.runs and not seen.lacked_time
            if is_flaky and draft.details is not None and draft.found is not None:
                # The failure is flaky after all: the rewritten repro compiles repeatedly in one process.
                rate = Reproducibility(failed=seen.failed_same, runs=seen.runs)
                repro = write(draft.found.reduced, draft.details, rate, draft.fault, self.journal)
                repro = repro.importing(missing) if missing is not None else repro
                draft = replace(draft, repro=repro).keep(self.journal)
                runs = self._seen(draft)
            draft = replace(draft, known=replace(draft.known, verification=runs.verification))
            self.journal.record(draft.fault)
            self.journal.tell_repro(draft.fault, verified=runs.verification.holds)
        return runs.verification, runs.notes, draft

    def _seen(self, draft: Draft) -> CleanRuns:
        return draft.own_clean_runs or self._clean_runs(draft, self.journal.watch_owner)

    def _clean_runs(self, draft: Draft, watch: Callable[[], None]) -> CleanRuns:
        repro, data = draft.repro, draft.data
        return CleanRuns(repro, data, *verify_in(self.place, repro, data, self.journal.clock, watch=watch))

    def decide(self, draft: Draft) -> Draft:
        """The draft of a verified repro, with the verdict on it."""
        fault, verification = draft.fault, draft.fault.verification
        assert verification is not None
        said = [verdict_sentence(fault)]
        status, reason = Status.MINIMIZED, Reason.DISPUTED if draft.disputed else None
        if not verification.holds:
            status, reason = Status.PARTIAL, Reason.BUDGET if verification.lacked_time else Reason.NOT_VERIFIED
        elif fault.reduction is not None and not fault.reduction.one_minimal:
            said.append(MAY_SHRINK)
        if draft.disputed:
            said.append(draft.disputed)
        draft = replace(draft, known=replace(fault, status=status, reason=reason, summary=" ".join(said)))
        self.journal.record(draft.fault)
        self.journal.decide()
        return draft

    @contextmanager
    def adding(self, step: Step, *, least: float = 0.0) -> Iterator[None]:
        """Run a step that only adds to the report, within its share of the time; a note says if it was cut short.

        After a verified repro, the owner of the job may skip it. ``least``: seconds that it gets even if its share is
        smaller, as far as the budget allows.
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
        """Seconds for a step that begins now: by `SHARES` after a verified repro, else the time left minus
        `WITNESSES_SECONDS`.
        """
        verified = self._verified_at
        if step is Step.WITNESS:
            return self.journal.clock.left if verified is None else min(WITNESS_SECONDS, self.journal.clock.left)
        if verified is None:
            return max(0.0, self.journal.clock.left - WITNESSES_SECONDS)
        whole = min(max(verified, FOLLOW_UP_SECONDS), self.journal.clock.budget - verified)
        until = verified + whole * sum(SHARES[one] for one in SHARES if list(Step).index(one) <= list(Step).index(step))
        return max(0.0, until - self.journal.clock.elapsed)

    def has_time(self, step: Step, *, is_worth_more: bool = False) -> bool:
        """Whether there is time for a step that reruns the script; after a verified repro, a note says so if not.

        ``is_worth_more``: whether what the step looks for is known to exist.
        """
        if self._verified_at is None:
            share = WORTHY_SHARE if is_worth_more else CHEAP_SHARE
            return self._run_seconds * SURVEY_RUNS <= max(CHEAP_SECONDS, share * self.journal.clock.left)
        fits = self._run_seconds <= self.share(step)
        if not fits:
            self.journal.note(f"Not begun for want of time, since it runs the script once more: {step.doing}.")
        return fits

    @property
    def _run_seconds(self) -> float:
        """Upper bound of the seconds of one run of the script."""
        timings = self.report.timings
        return timings.get(Step.SURVEY, timings.get(Step.EXACT, 0.0)) / SURVEY_RUNS

    @property
    def _verified_at(self) -> float | None:
        """Seconds from the start of the job to a verified repro; None if there is none."""
        return self.journal.decided_at if self.journal.fault.holds else None

    def diagnose(self, patient: Patient, fault: Fault) -> None:
        """Find the part of the compiler to blame for a fault, and a workaround."""
        with self.adding(Step.DIAGNOSE, least=RUNS_OF_DIAGNOSIS * self._run_seconds):
            seconds = min(DIAGNOSE_SECONDS, DIAGNOSE_SHARE * self.options.budget) * crowding()
            diagnose(
                patient,
                fold.failing(fault, self.report.environment),
                self.journal,
                seconds=min(seconds, self.journal.clock.left),
                keep=partial(self._take_diagnosis, patient, fault),
            )

    def _take_diagnosis(self, patient: Patient, fault: Fault, found: Diagnosed) -> None:
        if isinstance(patient.original, EndsWell):  # a failing workaround search proves nothing either
            found = replace(found, workaround=None)
        self.journal.record(fold.diagnosed(fault, found))

    def work_around(self, find: Callable[[], Workaround | None]) -> None:
        """Find a workaround for a fault that no graph shows."""
        with self.adding(Step.DIAGNOSE):
            found = find()
            self.journal.add(workaround=found)
            if found is not None and found.verified:
                self.journal.event("workaround", workaround=found.model_dump(mode="json"))

    def read_code(self, draft: Draft) -> None:
        """Locate the culprit in the code that Inductor generates, if that code is wrong."""
        fault = self.journal.fault
        if not fault.holds or fault.failure is None or fault.failure.stage not in (Stage.INDUCTOR, Stage.DECOMPOSITION):
            return
        operators = [op for culprit in self.report.roots for op in culprit.ops]
        with self.adding(Step.CODE, least=CODE_SECONDS):
            code = generated_code(
                draft.repro,
                draft.data,
                self.place,
                self.journal,
                operators,
                blame=fault.blame,
                seconds=self.journal.clock.left,  # of the step's share
            )
            self.journal.add(generated_code=code)

    def describe(self, draft: Draft) -> list[Region]:
        """Fill in the layer table and the graph around the culprit; returns further regions wrong in isolation."""
        suspects: list[Region] = []
        if draft.found is not None:
            with self.adding(Step.LAYERS, least=self._run_seconds):
                fault = self.journal.fault
                suspects = describe(
                    draft.found.program,
                    draft.found.oracle,
                    self.journal,
                    culprit=fault.culprits[0].nodes if fault.culprits else [],
                    known=fault.layers,
                    keep=self._take_description,
                )
        return suspects

    def _take_description(self, found: Described) -> None:
        self.journal.add(**{name: known for name, known in vars(found).items() if known is not None})

    def examine(self) -> None:
        """Measure the health of the compiled code in one more run of the script, if it ends and there is time."""
        failure = self.journal.fault.failure
        if failure is not None and failure.kind in (Kind.CRASH, Kind.HANG):
            self._leave_untimed("the script does not come to its end")
            return
        keep = partial(fold.advised, self.report)
        with self._without_harm():
            keep(known_of(self.surveys, self.script, self.journal))
        if self._is_uncompiled and not any(one.cost for one in self.report.findings):
            return  # one more run would show as little
        if not self.has_time(Step.HEALTH, is_worth_more=any(one.cost for one in self.report.findings)):
            self._leave_untimed("there was no time for one more run of the script")
            self._leave_untold("there was no time for further runs of the script")
            return
        self._leave_untimed("the run that times calls did not come to its end")
        was_looked_at = False
        with self.adding(Step.HEALTH):
            run = examine(self.surveys, self.place, self.journal, keep=partial(fold.examined, self.report))
            if run is not None:
                with self._without_harm():
                    advise(run, self.surveys, self.script, self.journal, keep=keep)
            may_train = run is None or run.may_train
            was_looked_at = not may_train
            if self._may_drift and may_train:
                with self._without_harm():
                    drift.examine(self.surveys, self.script, self.journal, partial(fold.drifted, self.report))
                    was_looked_at = True
        if not was_looked_at:
            self._leave_untold("the runs that compare them did not come to their end")

    @property
    def _may_drift(self) -> bool:
        """Whether losses are compared: the script runs in one process, has no failure, and values are compared."""
        options = self.options
        is_asked = options.nproc == 1 and options.compares_values and not options.expected_finding
        return self.journal.fault.failure is None and is_asked and not self._is_uncompiled

    @property
    def _is_uncompiled(self) -> bool:
        """Whether no frame was compiled: a graph break that leaves all to eager may be why, and nothing can drift."""
        return self.report.reason is Reason.NOTHING_COMPILED

    def _leave_untold(self, why: str) -> None:
        """Record why no losses were compared, if the script was seen to train."""
        if self._may_drift and self.report.drift is None and self.report.checked.backward:
            fold.drifted(self.report, drift.untold(why), [])

    @contextmanager
    def _without_harm(self) -> Iterator[None]:
        """Log our own errors on an unusual script instead of losing its verdict for the sake of advice."""
        try:
            yield
        except (ArithmeticError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError):
            self.journal.log(f"advice: {traceback.format_exc()}")

    def _leave_untimed(self, why: str) -> None:
        fold.examined(self.report, self.report.health.model_copy(update={"untimed": why}))

    def compare(self, draft: Draft) -> None:
        """Run a verified repro in every other torch, configured or requested; installing releases may use all the time
        left.
        """
        toolchains, releases, journal = self.settings.interpreters, self.releases, self.journal
        if not draft.fault.holds or (not toolchains and releases is None):
            return
        own = self.report.environment.get("torch", "")
        with self.adding(Step.COMPARE, least=journal.clock.left if releases is not None else 0.0):
            jobs = self.settings.trial_jobs
            found = compare(draft.repro, draft.data, self.place, toolchains, journal, jobs=jobs)
            journal.add(versions=fold.compared(found, own))
            if releases is not None:
                found += compare_releases(draft.repro, draft.data, self.place, releases, journal, own=own)
                journal.add(versions=fold.compared(found, own))

    def look_further(self, draft: Draft, suspects: Sequence[Region]) -> None:
        """Write repros of the secondary culprits; ``suspects`` are regions known to fail in isolation."""
        if draft.found is not None:
            timings = self.report.timings
            with self.adding(Step.FURTHER, least=sum(timings.get(step, 0.0) for step in FIRST_STEPS)):
                further = write_further(
                    draft.found,
                    suspects,
                    self.journal.fault,
                    surveys=self.surveys,
                    place=self.place,
                    journal=self.journal,
                    jobs=self.settings.trial_jobs,
                )
                for culprits in further:
                    self.journal.add(culprits=culprits)
                    self.journal.keep()

    def hear_witnesses(self) -> list[Testimony]:
        """Rerun the script under PyTorch's own minifier; the report quotes its findings, and the verdict stays."""
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
