"""Routes from a failure to a repro: the graph of the failing call, the calls that led to it, another graph, the script.

Every route that applies is tried before a failure is given up, the one with the smallest and most certain repros first.
Each is noted in the report's ``attempts``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from minimizer.engine import fold
from minimizer.engine.between.answer import Answer
from minimizer.engine.budget.patience import BLAME_SHARE
from minimizer.engine.child import protocol
from minimizer.engine.child.executor import Executor
from minimizer.engine.diagnose import Patient
from minimizer.engine.diagnose.original import SurveyedScript, passes_needed
from minimizer.engine.diagnose.trials import ProgramTrials
from minimizer.engine.journal import Journal
from minimizer.engine.levels import cached_calls, call_sequence
from minimizer.engine.levels.draft import Result
from minimizer.engine.levels.from_outcomes import mechanism_of, source_of
from minimizer.engine.levels.graph import Repeat, Search
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph.public_names import is_public
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import AOT_CACHE, INDUCTOR_CACHE, Cache, Case, ScriptCase, Settled
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.triage import Triage
from minimizer.engine.survey.verdicts import of_caches, unexamined
from minimizer.engine.verify.reserve import to_verify
from minimizer.errors import BudgetExceeded, ChildFailed, Unanswered
from minimizer.options import Options
from minimizer.report.examined import Attempt, Between, Checked
from minimizer.report.excused import excused, merged
from minimizer.report.model import Failure, Report, Reproducibility, Workaround
from minimizer.vocabulary import Kind, Reason, Stage, Status

T = TypeVar("T")

NO_ANSWER = Answer(aside="there were no exact runs")
COMPILES_ANEW = "every run compiles all of its graphs: with these caches off, the script showed no failure"
MOST_GRAPHS = 3
"""Most failing graphs of a script that are tried, one after the other, until one has a repro."""


@dataclass(frozen=True)
class Made:
    """A repro that is not verified yet, and the patient to diagnose.

    ``find_workaround``: finds a workaround where there is no patient to try changes on.
    """

    result: Result
    patient: Patient | None
    find_workaround: Callable[[], Workaround | None] | None = None


@dataclass
class Routes:
    """The routes of one script's failure."""

    executor: Executor
    triage: Triage
    journal: Journal
    options: Options
    script: Path
    jobs: int
    """Trials in parallel."""
    beside: ThreadPoolExecutor
    exact: Answer = NO_ANSWER
    """The answer of the exact runs."""
    tried: list[Attempt] = field(default_factory=list)
    _stale: Settled | None = None
    """The verdict on a failure that was seen to need the compiler's caches."""
    _has_asked_caches: bool = False

    @property
    def report(self) -> Report:
        return self.journal.report

    def follow(self, found: Case | ScriptCase) -> Made | Settled:
        """The first repro that a route leads to; else the verdict."""
        end = self._by_graphs(found) if isinstance(found, Case) else found.otherwise
        stale = self._stale
        if stale is not None and stale.cache is not None and isinstance(found, Case):
            # Runs of a smaller script have no caches: none would fail.
            return self._with_caches(found, stale, stale.cache)
        is_open = isinstance(end, Settled) and end.status is not Status.HEALTHY
        is_steady = isinstance(end, Settled) and end.reason is not Reason.NONDETERMINISTIC
        if not isinstance(end, Settled) or not (is_open and is_steady and self._is_one_process):
            return end
        otherwise = end
        made = self._tried("the script at the Python level", lambda: self._by_script(otherwise))
        return made or (self._needs_caches(found) if isinstance(found, Case) else None) or otherwise

    def _with_caches(self, case: Case, stale: Settled, cache: Cache) -> Made | Settled:
        """The repro of a failure that needs the compiler's caches; else its verdict, which says more than that the time is over."""
        try:
            return self._tried("its calls, taken from a cache", partial(self._by_caches, case, cache)) or stale
        except BudgetExceeded as error:
            if not error.is_time:
                raise
            return stale

    @property
    def _is_one_process(self) -> bool:
        """Whether the script runs in one process, as a repro does."""
        return self.options.nproc == 1

    def as_it_runs_plainly(self, end: Settled, plain: PlainRuns) -> Made | Settled:
        """The repro of a failure that plain runs of the script showed; else the verdict.

        The warm child is asked first: at the script level it makes no setting for the sake of comparing, and its answers cost a tenth.
        """
        if (
            end.reason is not Reason.UNEXPLAINED
            or end.kind in (None, Kind.HANG, Kind.MISSING_ERROR)
            or not self._is_one_process
        ):
            return end
        judges = {
            "the script at the Python level": Rerun(self.executor, self.script),
            "the script, by plain runs": PlainRerun(self.executor, self.script, plain),
        }
        fold.checked(self.report, checked_of(end.checked, self.exact))
        for name, judge in judges.items():
            if not any(name == attempt.what for attempt in self.tried):
                try:
                    made = self._tried(name, partial(self._by_script, end, judge))
                except BudgetExceeded as error:
                    if not error.is_time:
                        raise
                    return end  # which says more than that the time is over
                if made is not None:
                    return made
        return end

    def by_graph(self, case: Case) -> Made:
        """The repro of a failing call's graph, with the exact inputs of that call.

        Raises:
            Unreduced: no part of the graph fails in isolation.
            ChildFailed: the graph cannot be taken apart.
        """
        result = self._reduce(case)
        patient = self.patient(result)
        if result.found is not None and not is_public(result.found.reduced):
            result = self._in_public(result)
        return Made(result, patient)

    def patient(self, result: Result) -> Patient | None:
        """The patient to diagnose: the reduced program and the user's script; None if no graph was reduced."""
        found = result.found
        if found is None:
            return None
        return Patient(ProgramTrials(found.reduced, found.oracle), self._original(found.case), self.script)

    # one route each ------------------------------------------------------------------------------------------------------

    def _by_graphs(self, case: Case) -> Made | Settled:
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
            if isinstance(end, Made):
                return end
            verdicts.append(end)
            if end.reason is not Reason.NOT_VERIFIED or case.graph is None or case.otherwise is not None:
                break
            if call > 1 and self._is_one_process and case.signature.kind in (Kind.WRONG_OUTPUT, Kind.RUNTIME_ERROR):
                made = self._tried(
                    f"{name}, with the calls that led to its call {call}", partial(self._by_sequence, case)
                )
                if made is not None:
                    return made
            passed_by.append(case.graph)
            if len(passed_by) < MOST_GRAPHS:
                following = self._tried("the other graphs of the run", partial(self._other_graph, passed_by))
        return verdicts[0]

    def _by_graph_or_verdict(self, case: Case) -> Made | Settled:
        try:
            return self.by_graph(case)
        except Unreduced as end:
            return end.settled
        except ChildFailed as error:
            return unanswered(error, case)

    def _by_sequence(self, case: Case) -> Made | None:
        """A repro made of the calls of the graph that led to the failing one."""
        with suppress(ChildFailed):
            text = self._from_held(case, lambda held: call_sequence.as_script(held.program, held.survey.calls()))
            return self._by_calls(case, self._of_part(case, text, case.program)) if text is not None else None
        return None

    def _by_caches(self, case: Case, cache: Cache) -> Made | None:
        """A repro made of calls that share a cache, of which the last is the failing one."""
        if not self._is_one_process:
            return None
        scripts = self._from_held(
            case, lambda held: list(cached_calls.as_scripts(held.program, held.survey.calls()[-1]))
        )
        judge = Rerun(self.executor, self.script, caches=True)
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
            held = self.triage.held_at(case)
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

    def _by_calls(self, case: Case, script: MadeScript, judge: Rerun | None = None) -> Made | None:
        """The repro of a script that was made of calls; None if it does not show the failure."""
        level = self._python_level(script, judge)
        repro = level.repro(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=case.signature.kind))
        return Made(Result(repro), level.patient) if repro is not None else None

    def _other_graph(self, passed_by: list[int]) -> Case | None:
        """The next failing call of the script, of a graph that was not tried yet."""
        with suppress(ChildFailed):
            found = self.triage.without(passed_by)
            return found if isinstance(found, Case) else None
        return None

    def _needs_caches(self, case: Case) -> Settled | None:
        """The verdict on a failure that needs the compiler's caches, by runs with and without them; None if it does not.

        Asked once: the answer is the same for every graph of the script.
        """
        if not case.is_cached or self._has_asked_caches:
            return self._stale
        self._has_asked_caches = True
        surveys = self.triage.surveys
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

    def _by_script(self, otherwise: Settled, judge: Rerun | None = None) -> Made | None:
        level = self._python_level(rerun=judge)
        repro = level.repro(otherwise)
        return Made(Result(repro), level.patient) if repro is not None else None

    def _in_public(self, result: Result) -> Result:
        """Replace the repro by the reduced script if that fails in the same way in no more lines; the blame stays."""
        known = self.journal.fault
        assert known.failure is not None
        same = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=known.failure.kind)
        repro = None
        try:
            clock = self.journal.clock
            held_back = partial(to_verify, clock.pace, known.failure.kind)
            with clock.reserving(held_back, BLAME_SHARE), suppress(BudgetExceeded, ChildFailed):
                repro = self._python_level().repro(same) if self.options.nproc == 1 else None
        finally:
            reduction = self.journal.fault.reduction
            self.journal.fault = known
        is_better = repro is not None and repro.kind is known.failure.kind and repro.lines <= result.repro.lines
        if repro is None or reduction is None or known.reduction is None or not is_better:
            result.keep(self.journal)
            return result
        nodes = {"nodes_before": known.reduction.nodes_before, "nodes_after": known.reduction.nodes_after}
        # The graph's: observing may break a transform.
        self.journal.fault = replace(known, reduction=reduction.model_copy(update=nodes))
        return replace(result, repro=repro, data=None, rewrite=None, firmer=None)

    # parts of them -------------------------------------------------------------------------------------------------------

    def _reduce(self, case: Case) -> Result:
        """Reduce a failing call; of several suspects, the first that is confirmed.

        Raises:
            Unreduced: no window of the graph fails in isolation.
            Unanswered: the graph's values cannot be had.
        """
        while True:
            self._announce(case)
            try:
                return self._search(case).run(self._rated(case))
            except (Unreduced, Unanswered) as end:
                case.survey.close()  # before the next call is held: each held child keeps the whole script in memory
                if case.otherwise is None:
                    raise
                if isinstance(end, Unanswered):
                    self.triage.suspects.leave_open()
                further = self.triage.suspects.hold_next()
                if further is None and isinstance(end, Unreduced) and end.settled is not case.otherwise:
                    raise
                if further is None:
                    assert self.triage.suspects.otherwise is not None
                    raise Unreduced(self.triage.suspects.otherwise) from None
            case = further

    def _rated(self, case: Case) -> Repeat:
        return lambda seen, enough, over: self.beside.submit(self.triage.surveys.rate, case, seen, enough, over)

    def _search(self, case: Case) -> Search:
        return Search(
            case,
            self.executor,
            self.journal,
            script=self.script,
            source=self.script.read_text(errors="replace"),
            target=self.options.target,
            jobs=self.jobs,
            vanishes=partial(self._needs_caches, case),
        )

    def _python_level(self, made: MadeScript | None = None, rerun: Rerun | None = None) -> PythonLevel:
        return PythonLevel(
            self.executor, self.script, self.options.args, self.journal, jobs=self.jobs, made=made, rerun=rerun
        )

    def _original(self, case: Case) -> SurveyedScript:
        failure = self.journal.fault.failure
        assert failure is not None
        return SurveyedScript(self.triage.surveys, case, passes_needed(failure.reproducibility))

    def _tried(self, what: str, route: Callable[[], T]) -> T:
        """Try a route, and note how it ended."""
        begun, outcome = time.monotonic(), "cut short"
        try:
            end = route()
            outcome = (
                "a repro" if isinstance(end, Made) else "another failing call" if isinstance(end, Case) else "no repro"
            )
            return end
        finally:
            self.tried.append(Attempt(what=what, outcome=outcome, seconds=round(time.monotonic() - begun, 2)))
            fold.attempted(self.report, self.tried)

    def _announce(self, case: Case) -> None:
        signature = case.signature
        devices = {i.meta.device for i in case.program.inputs if i.meta is not None}
        fold.prepared(self.report, {**self.report.environment, "device": "cuda" if "cuda" in devices else "cpu"})
        fold.checked(self.report, checked_of(case.checked, self.exact))
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


def checked_of(checked: protocol.Checked, exact: Answer) -> Checked:
    """The coverage of the survey, with the state that neither it nor the ``exact`` runs could compare."""
    known = Checked(**checked.model_dump(exclude={"state"}))
    is_open = bool(exact.aside or exact.ended)
    left = checked.state if is_open else ()
    return known.model_copy(
        update={
            "not_compared": [*known.not_compared, *left, *exact.not_compared],
            "excused": merged(known.excused, [excused("state_not_compared", one) for one in left], exact.excused),
            "between": Between(compared=not is_open, looks=exact.looks, why_not=exact.aside or exact.ended),
        }
    )


def unanswered(error: ChildFailed, case: Case) -> Settled:
    """The verdict where the graph of a failure, or of a mere suspect, cannot be had."""
    if case.otherwise is not None:
        return unexamined(case.otherwise)
    summary = f"The script fails, but its graph cannot be taken apart: {error}."
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary)
