"""Routes from a failure to a repro: the graph of the failing call, the calls that led to it, another graph, the script.

Every route that applies is tried before a failure is given up, the one with the smallest and most certain repros first.
Each is noted in the report's ``attempts``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from minimizer.engine import fold
from minimizer.engine.advice.asked import causes_of
from minimizer.engine.advice.rules import Cause
from minimizer.engine.between.answer import NO_ANSWER, Answer, checked_of
from minimizer.engine.budget.clock import until_over
from minimizer.engine.budget.patience import LEAST_TIMEOUT
from minimizer.engine.diagnose import Patient
from minimizer.engine.diagnose.original import SurveyedScript, passes_needed
from minimizer.engine.diagnose.trials import ProgramTrials
from minimizer.engine.job import Parts
from minimizer.engine.journal import Journal
from minimizer.engine.levels import cached_calls, call_sequence
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.finding import FindingLevel, FindingOracle
from minimizer.engine.levels.from_outcomes import mechanism_of, source_of
from minimizer.engine.levels.graph import Repeat, Search
from minimizer.engine.levels.outer import RAISED, OuterLevel
from minimizer.engine.levels.parting import VALUES, PartingLevel
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.levels.window import Unreduced, accepted
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import AOT_CACHE, INDUCTOR_CACHE, Cache, Case, ScriptCase, Settled
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.triage import Triage
from minimizer.engine.survey.verdicts import of_caches, unexamined
from minimizer.errors import BudgetExceeded, ChildFailed, Unanswered
from minimizer.report.examined import Attempt
from minimizer.report.model import Failure, Reproducibility, Workaround
from minimizer.vocabulary import Kind, Reason, Stage, Status

T = TypeVar("T")

COMPILES_ANEW = "every run compiles all of its graphs: with these caches off, the script showed no failure"
SIDE_BY_SIDE = "the program around the graphs, side by side"
MOST_GRAPHS = 3
"""Most failing graphs of a script that are tried, one after the other, until one has a repro."""


@dataclass
class Routes:
    """The routes of one script's failure. ``is_beside``: whether the job has a fault of its own already, and another is looked for."""

    parts: Parts
    exact: Answer = NO_ANSWER
    """The answer of the exact runs."""
    is_beside: bool = False
    tried: list[Attempt] = field(default_factory=list)
    _stale: Settled | None = None
    """The verdict on a failure that was seen to need the compiler's caches."""
    _has_asked_caches: bool = False

    @property
    def journal(self) -> Journal:
        return self.parts.job.journal

    def beside(self, journal: Journal, triage: Triage) -> Routes:
        """The same for another fault than the job's own, which this journal records."""
        follow_up, job = replace(self.parts.follow_up, journal=journal), replace(self.parts.job, journal=journal)
        parts = replace(self.parts, job=job, triage=triage, follow_up=follow_up)
        return replace(self, parts=parts, is_beside=True, tried=[])

    def follow(self, found: Case | ScriptCase) -> Draft | Settled:
        """The first repro that a route leads to; else the verdict."""
        end = self._by_graphs(found) if isinstance(found, Case) else found.otherwise
        stale = self._stale
        if stale is not None and stale.cache is not None and isinstance(found, Case):
            # Runs of a smaller script have no caches: none would fail.
            return self._with_caches(found, stale, stale.cache)
        if isinstance(end, Draft) or end.status is Status.HEALTHY or end.reason is Reason.NONDETERMINISTIC:
            return end
        if not self._is_one_process:
            return end
        made = None
        kind = found.signature.kind if isinstance(found, Case) else end.kind
        if isinstance(found, ScriptCase) and kind in VALUES:
            # The referee judges here, also where the script's own check is in dispute.
            made = self._tried(SIDE_BY_SIDE, partial(self.by_parting, found))
        if made is None and kind in RAISED:
            made = self._tried("the program around the graphs", partial(self.by_outer, end))
        made = made or self._tried("the script at the Python level", partial(self.by_script, end))
        return made or (self.needs_caches(found) if isinstance(found, Case) else None) or end

    def _with_caches(self, case: Case, stale: Settled, cache: Cache) -> Draft | Settled:
        """The repro of a failure that needs the compiler's caches; else its verdict, which says more than that the time is over."""
        with until_over():
            return self._tried("its calls, taken from a cache", partial(self.by_caches, case, cache)) or stale
        return stale

    @property
    def _is_one_process(self) -> bool:
        """Whether the script runs in one process, as a repro does."""
        return self.parts.job.options.nproc == 1

    def as_it_runs_plainly(self, end: Settled, plain: PlainRuns) -> Draft | Settled:
        """The repro of a failure that plain runs of the script showed; else the verdict.

        The warm child is asked first: at the script level it makes no setting for the sake of comparing, and its answers cost a tenth.
        """
        is_shown = end.reason is Reason.UNEXPLAINED and end.kind not in (None, Kind.HANG, Kind.MISSING_ERROR)
        if not (is_shown and self._is_one_process):
            return end
        judges = {
            "the script at the Python level": Rerun(self.parts.executor, self.parts.job.script),
            "the script, by plain runs": PlainRerun(self.parts.executor, self.parts.job.script, plain),
        }
        fold.checked(self.journal.report, checked_of(end.checked, self.exact))
        with until_over():  # the verdict says more than that the time is over
            for name, judge in judges.items():
                if not any(name == attempt.what for attempt in self.tried):
                    made = self._tried(name, partial(self.by_script, end, judge))
                    if made is not None:
                        return made
        return end

    def by_graph(self, case: Case) -> Draft:
        """The repro of a failing call's graph, with the exact inputs of that call.

        Raises:
            Unreduced: no part of the graph fails in isolation.
            ChildFailed: the graph cannot be taken apart.
        """
        return self.of_patient(self._reduce(case))

    def by_script(self, otherwise: Settled, judge: Rerun | None = None) -> Draft | None:
        """The repro of the script itself, as ``judge`` sees it fail, by default the warm child; None where ``otherwise`` stays the verdict."""
        return self._python_level(rerun=judge).draft(otherwise)

    def costliest(self, kind: Kind) -> Cause | None:
        """The cause of the costliest finding of this kind, by the first run of the script that came to its end; None if it has none."""
        health = self.parts.surveys.cold
        if health is None:
            return None
        found = causes_of(kind, health.broken, health.recompiled, self.parts.job.script.name)
        return found[0] if found else None

    def by_finding(self, kind: Kind, cause: Cause, otherwise: Settled) -> Draft | None:
        """The repro of a finding; None where the script does not show it when it is run by itself, or runs in several processes."""
        job = self.parts.job
        fold.checked(self.journal.report, checked_of(otherwise.checked, self.exact))
        oracle = FindingOracle(self.parts.executor, job.script, kind, cause)
        level = FindingLevel(job.script, job.options.args, self.journal, oracle, jobs=job.settings.trial_jobs)
        level.announce()
        return self._tried("the script, by its finding", level.draft) if self._is_one_process else None

    def by_outer(self, otherwise: Settled) -> Draft | None:
        """The repro of the script's calls of torch around its graphs; None where these do not show the failure in clean processes too."""
        job = self.parts.job
        level = OuterLevel(self.parts.executor, job.script, job.options.args, job.journal, jobs=job.settings.trial_jobs)
        return self._that_holds(partial(level.draft, otherwise))

    def by_parting(self, found: Case | ScriptCase) -> Draft | None:
        """The repro of the calls of torch after which eager and compiled part; None where these do not show it in clean processes too."""
        job = self.parts.job
        level = PartingLevel(
            self.parts.executor, job.script, job.options.args, self.journal, jobs=job.settings.trial_jobs
        )
        if isinstance(found, Case):
            return self._that_holds(partial(level.draft, found.signature.kind, self._original(found)))
        return self._that_holds(partial(level.draft, found.otherwise.kind, check=found.otherwise.exception))

    def _that_holds(self, make: Callable[[], Draft | None]) -> Draft | None:
        """The draft that a search around the graphs makes, if it holds in clean processes too; else all is as it was before."""
        before, draft, may_hold = self.journal.fault, None, False
        # The text is left to try, also where a hostile trace can be read and not be written again.
        with until_over(), suppress(ChildFailed, RecursionError, SyntaxError, ValueError):
            draft = make()
            may_hold = draft is not None and self.parts.follow_up.may_hold(draft)
        may_hold = may_hold or (
            draft is not None and self.journal.clock.left < LEAST_TIMEOUT
        )  # no time is left for that
        if may_hold:
            return draft
        self.journal.fault = before
        if draft is not None:
            self.journal.show_instead({})
            self.journal.repro = None
        return None

    def search(self, case: Case, oracle: Oracle) -> Search:
        """The search for a repro of a failing call, as ``oracle`` judges it."""
        return Search(
            case,
            oracle,
            self.journal,
            script=self.parts.job.script,
            target=self.parts.job.options.target,
            jobs=self.parts.job.settings.trial_jobs,
            vanishes=partial(self.needs_caches, case),
        )

    def of_patient(self, draft: Draft) -> Draft:
        """The draft of a graph with what to diagnose: the reduced program and the user's script."""
        found = draft.found
        assert found is not None
        trials = ProgramTrials(found.reduced, found.oracle)
        return replace(draft, patient=Patient(trials, self._original(found.case), self.parts.job.script))

    # one route each ------------------------------------------------------------------------------------------------------

    def _by_graphs(self, case: Case) -> Draft | Settled:
        """A repro from a failing call's graph, the calls before it or the next failing graphs; else a verdict."""
        verdicts: list[Settled] = []
        passed_by: list[int] = []
        following: Case | None = case
        while following is not None:
            case, following = following, None
            name, call = "the graph" if case.graph is None else f"graph {case.graph}", case.call + 1
            end = self._tried(
                f"{name}, with the exact inputs of its call {call}", partial(self._by_graph_or_verdict, case)
            )
            if isinstance(end, Draft):
                return end
            verdicts.append(end)
            if end.reason is not Reason.NOT_VERIFIED or case.graph is None or case.otherwise is not None:
                break
            if not passed_by and self._is_one_process and case.signature.kind in VALUES:
                made = self._tried(SIDE_BY_SIDE, partial(self.by_parting, case))
                if made is not None:
                    return made
            if call > 1 and self._is_one_process and case.signature.kind in (Kind.WRONG_OUTPUT, Kind.RUNTIME_ERROR):
                made = self._tried(
                    f"{name}, with the calls that led to its call {call}", partial(self.by_sequence, case)
                )
                if made is not None:
                    return made
            passed_by.append(case.graph)
            if len(passed_by) < MOST_GRAPHS:
                following = self._tried("the other graphs of the run", partial(self._other_graph, passed_by))
        return verdicts[0]

    def _by_graph_or_verdict(self, case: Case) -> Draft | Settled:
        try:
            return self.by_graph(case)
        except Unreduced as end:
            return end.settled
        except ChildFailed as error:
            return unanswered(error, case)

    def by_sequence(self, case: Case) -> Draft | None:
        """A repro made of the calls of the graph that led to the failing one."""
        with suppress(ChildFailed):
            text = self._from_held(case, lambda held: call_sequence.as_script(held.program, held.survey.calls()))
            return self._by_calls(case, self._of_part(case, text, case.program)) if text is not None else None
        return None

    def by_caches(self, case: Case, cache: Cache) -> Draft | None:
        """A repro made of calls that share a cache, of which the last is the failing one."""
        if not self._is_one_process:
            return None
        scripts = self._from_held(
            case, lambda held: list(cached_calls.as_scripts(held.program, held.survey.calls()[-1]))
        )
        judge = Rerun(self.parts.executor, self.parts.job.script, caches=True)
        for text, part in scripts or ():
            script = self._of_part(case, text, part)
            script = replace(script, cured=cached_calls.without_caches, what="", stage=cache.stage)
            made = self._by_calls(case, script, judge)
            if made is not None:
                self.journal.fault = self.journal.fault.stating(mechanism="stale_cache", object=cache.name)
                return made
        return None

    def _from_held(self, case: Case, write: Callable[[Case], T]) -> T | None:
        """What is written of a failing call that is held again; None where it cannot be held, or an input has no source text."""
        with suppress(ChildFailed):
            held = self.parts.triage.held_at(case)
            if held is not None:
                try:
                    return write(held)
                finally:
                    held.survey.close()
        return None

    def _of_part(self, case: Case, text: str, part: Program) -> MadeScript:
        """A script that makes calls of a part of a graph."""
        nodes = [node for node in part.nodes if node.counts]
        module = next((node.module for node in nodes if node.module), "")
        return MadeScript(text, self._original(case), module, source_of(nodes[::-1]))

    def _by_calls(self, case: Case, script: MadeScript, judge: Rerun | None = None) -> Draft | None:
        """The repro of a script that was made of calls; None if it does not show the failure."""
        same = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=case.signature.kind)
        return self._python_level(script, judge).draft(same)

    def _other_graph(self, passed_by: list[int]) -> Case | None:
        """The next failing call of the script, of a graph that was not tried yet; a graph that does not compile ends every run."""
        with suppress(ChildFailed):
            found = self.parts.triage.without(passed_by)
            if isinstance(found, Case) and found.graph not in passed_by:
                return found
            if isinstance(found, Case):
                found.survey.close()
        return None

    def needs_caches(self, case: Case) -> Settled | None:
        """The verdict on a failure that needs the compiler's caches, by runs with and without them; None if it does not.

        Asked once: the answer is the same for every graph of the script.
        """
        if not case.is_cached or self._has_asked_caches:
            return self._stale
        self._has_asked_caches = True
        surveys = self.parts.triage.surveys
        surveys.pass_by(())
        with suppress(BudgetExceeded, ChildFailed):
            if surveys.fails_again(case) is not False or not surveys.fails_again(case, caches=True):
                return None
            is_inductor = surveys.fails_again(case, caches="inductor")
            name, stage = (INDUCTOR_CACHE, Stage.INDUCTOR) if is_inductor else (AOT_CACHE, Stage.AOT_AUTOGRAD)
            workaround = Workaround(
                code=cached_calls.OFF, verified=True, where="behind the imports", what=COMPILES_ANEW
            )
            self.journal.fault = replace(self.journal.fault, workaround=workaround)
            end = Settled(Status.PARTIAL, None, "", case.checked, kind=case.signature.kind, exception=case.exception)
            self._stale = of_caches(end, Cache(name, stage, case.message), is_warm=case.is_warm)
        return self._stale

    # parts of them -------------------------------------------------------------------------------------------------------

    def _reduce(self, case: Case) -> Draft:
        """Reduce a failing call; of several suspects, the first that is confirmed.

        Raises:
            Unreduced: no window of the graph fails in isolation.
            Unanswered: the graph's values cannot be had.
        """
        while True:
            self._announce(case)
            oracle = Oracle(self.parts.executor, case.survey, accepted(case.signature), case.tolerance, case.identity)
            try:
                return self.search(case, oracle).run(self._rated(case))
            except (Unreduced, Unanswered) as end:
                case.survey.close()  # before the next call is held: each held child keeps the whole script in memory
                if case.otherwise is None:
                    raise
                if isinstance(end, Unanswered):
                    self.parts.triage.suspects.leave_open()
                further = self.parts.triage.suspects.hold_next()
                if further is None and isinstance(end, Unreduced) and end.settled is not case.otherwise:
                    raise
                if further is None:
                    assert self.parts.triage.suspects.otherwise is not None
                    raise Unreduced(self.parts.triage.suspects.otherwise) from None
            case = further

    def _rated(self, case: Case) -> Repeat:
        return lambda seen, enough, over: self.parts.beside.submit(
            self.parts.triage.surveys.rate, case, seen, enough, over
        )

    def _python_level(self, made: MadeScript | None = None, rerun: Rerun | None = None) -> PythonLevel:
        return PythonLevel(
            self.parts.executor,
            self.parts.job.script,
            self.parts.job.options.args,
            self.journal,
            jobs=self.parts.job.settings.trial_jobs,
            made=made,
            rerun=rerun,
        )

    def _original(self, case: Case) -> SurveyedScript:
        repeats = passes_needed(self.journal.fault.announced.reproducibility)
        return SurveyedScript(self.parts.triage.surveys, case, repeats)

    def _tried(self, what: str, route: Callable[[], T]) -> T:
        """Try a route, and note how it ended."""
        begun, outcome = time.monotonic(), "cut short"
        try:
            end = route()
            outcome = (
                "a repro" if isinstance(end, Draft) else "another failing call" if isinstance(end, Case) else "no repro"
            )
            return end
        finally:
            self.tried.append(Attempt(what=what, outcome=outcome, seconds=round(time.monotonic() - begun, 2)))
            fold.attempted(self.journal.report, self.tried)

    def _announce(self, case: Case) -> None:
        signature = case.signature
        devices = {i.meta.device for i in case.program.inputs if i.meta is not None}
        fold.prepared(
            self.journal.report, {**self.journal.report.environment, "device": "cuda" if "cuda" in devices else "cpu"}
        )
        fold.checked(self.journal.report, checked_of(case.checked, self.exact))
        self.journal.subject = f"graph {case.graph}" if case.graph is not None else ""
        failure = Failure(
            kind=signature.kind,
            exception_type=case.exception.root_type if case.exception else None,
            message=case.message,
            traceback=self.journal.stack(case.stack),
            signature=signature.text,
            layout_only=case.layout_only,
            reproducibility=Reproducibility(failed=1, runs=case.runs),
            **mechanism_of(case.verdict),
        )
        self.journal.announce(replace(self.journal.fault, failure=failure))


def unanswered(error: ChildFailed, case: Case) -> Settled:
    """The verdict where the graph of a failure, or of a mere suspect, cannot be had."""
    if case.otherwise is not None:
        return unexamined(case.otherwise)
    summary = f"The script fails, but its graph cannot be taken apart: {error}."
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary)
