"""Routes from a failure to a repro: the graph of the failing call, the calls that led to it, another graph, the script.

All routes that apply are tried before a failure is given up, ordered by how small and certain their repros are. Each is
listed in the report's ``attempts``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

from minimizer.engine import fold
from minimizer.engine.advice.asked import causes_of, figures_of
from minimizer.engine.advice.rules import Cause
from minimizer.engine.between.answer import NO_ANSWER, Answer, checked_of
from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import LEAST_TIMEOUT, ONLY_SHARE
from minimizer.engine.child.protocol import Health, OtherDraws
from minimizer.engine.diagnose.original import SurveyedScript, passes_needed
from minimizer.engine.findings import Fault
from minimizer.engine.job import Parts
from minimizer.engine.journal import Journal
from minimizer.engine.levels import distribution
from minimizer.engine.levels.calls import CallsLevel
from minimizer.engine.levels.cost import CostLevel, SavedLevel, announce
from minimizer.engine.levels.cost_oracle import SavedOracle
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.finding import FindingLevel, FindingOracle
from minimizer.engine.levels.held_graph import GraphLevel
from minimizer.engine.levels.missing_error import MissingErrorLevel
from minimizer.engine.levels.outer import RAISED, OuterLevel
from minimizer.engine.levels.parting import VALUES, Compared, EndsWell, PartingLevel
from minimizer.engine.levels.script import PythonLevel
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Cache, Case, ScriptCase, Settled
from minimizer.engine.survey.plain_rerun import PlainRerun
from minimizer.engine.survey.plain_runs import PlainRuns
from minimizer.engine.survey.triage import Triage
from minimizer.engine.survey.verdicts import maybe_read, unasked, unexamined, unmade_reading, unmade_value, unread
from minimizer.errors import ChildFailed
from minimizer.report.examined import Attempt
from minimizer.vocabulary import Kind, Reason, Status

T = TypeVar("T")

SIDE_BY_SIDE = "the program around the graphs, side by side"
UNNOTED = "not all of it could be noted"
MOST_GRAPHS = 3
"""Most failing graphs of a script to try, one after the other, until one has a repro."""
TROUBLES = (ChildFailed, RecursionError, SyntaxError, ValueError, IndexError)
"""Exceptions of a search around the graphs: a child that is gone, or a malformed trace."""


@dataclass
class Routes:
    """The routes of one script's failure. ``is_beside``: whether this is a second fault, of a job that already has one."""

    parts: Parts
    exact: Answer = NO_ANSWER
    """The result of the exact runs."""
    is_beside: bool = False
    tried: list[Attempt] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        return self.parts.job.journal

    @property
    def known(self) -> Fault:
        """The findings so far: what the next attempt begins with."""
        return self.journal.fault

    @cached_property
    def calls(self) -> CallsLevel:
        """The level of scripts that call a graph several times; caches whether the failure needs the compiler's caches."""
        return self._level(partial(CallsLevel, triage=self.parts.triage))

    @cached_property
    def graphs(self) -> GraphLevel:
        """The level of graphs whose failing calls are held."""
        parts = self.parts
        return self._level(
            partial(
                GraphLevel,
                triage=parts.triage,
                exact=self.exact,
                target=parts.job.options.target,
                beside=parts.beside,
                vanishes=self.calls.needs_caches,
            )
        )

    def beside(self, journal: Journal, triage: Triage) -> Routes:
        """The same routes for a second fault, recorded in this journal."""
        follow_up, job = replace(self.parts.follow_up, journal=journal), replace(self.parts.job, journal=journal)
        parts = replace(self.parts, job=job, triage=triage, follow_up=follow_up)
        return replace(self, parts=parts, is_beside=True, tried=[])

    def follow(self, found: Case | ScriptCase) -> Draft | Settled:
        """The first repro found by a route; else the verdict."""
        if isinstance(found, ScriptCase) and found.is_suspect:
            return self._tried(SIDE_BY_SIDE, partial(self.by_reading, found))
        end = self._by_graphs(found) if isinstance(found, Case) else found.otherwise
        stale = self.calls.stale
        if isinstance(found, Case) and not isinstance(end, Draft) and end.reason is Reason.NOT_VERIFIED:
            stale = self.calls.needs_caches(found)  # already known, unless the graph's time was over first
        if stale is not None and stale.cache is not None and isinstance(found, Case):
            # Runs of a smaller script do not have these caches, and would not fail.
            return self._with_caches(found, stale, stale.cache) if self._stands_alone else stale
        if isinstance(end, Draft) or end.status is Status.HEALTHY or end.reason is Reason.NONDETERMINISTIC:
            return end
        if not self._stands_alone:
            return end
        made = None
        kind = found.signature.kind if isinstance(found, Case) else end.kind
        if isinstance(found, ScriptCase) and kind in VALUES:
            # The referee judges here too, even if the script's own check is in dispute.
            made = self._tried(SIDE_BY_SIDE, partial(self.by_parting, found))
        if made is None and kind in RAISED:
            made = self._tried("the program around the graphs", partial(self.by_outer, end))
        made = made or self._tried("the script at the Python level", partial(self.by_script, end))
        return made or end

    def _with_caches(self, case: Case, stale: Settled, cache: Cache) -> Draft | Settled:
        """The repro of a failure that needs the compiler's caches.

        Else its verdict, which is better than one of a timeout.
        """
        with suppressing_end_of_time():
            route = partial(self.calls.by_caches, case, cache, self.known)
            return self._tried("its calls, taken from a cache", route) or stale
        return stale

    @property
    def _stands_alone(self) -> bool:
        return self.parts.job.options.stands_alone

    def as_it_runs_plainly(self, end: Settled, plain: PlainRuns) -> Draft | Settled:
        """The repro of a failure shown by plain runs of the script; else the verdict.

        The warm child is asked first: at the script level it changes no setting in order to compare, and costs a tenth
        of a plain run.
        """
        is_shown = end.reason is Reason.UNEXPLAINED and end.kind not in (None, Kind.HANG)
        if not (is_shown and self._stands_alone):
            return end
        if end.kind is Kind.MISSING_ERROR:
            fold.checked(self.journal.report, checked_of(end.checked, self.exact))
            return self._tried("the script, by how it ends", self._by_missing_error) or end
        judges = {
            "the script at the Python level": Rerun(self.parts.executor, self.parts.job.script),
            "the script, by plain runs": PlainRerun(self.parts.executor, self.parts.job.script, plain),
        }
        fold.checked(self.journal.report, checked_of(end.checked, self.exact))
        with suppressing_end_of_time():  # `end` is a better verdict than that the time is over
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
        return self.graphs.draft(case, self.known)

    def by_script(self, otherwise: Settled, judge: Rerun | None = None) -> Draft | None:
        """The repro of the script itself, with ``judge`` as its oracle (by default the warm child).

        None if ``otherwise`` stays the verdict.
        """
        return self._level(partial(PythonLevel, rerun=judge)).draft(otherwise, self.known)

    def _by_missing_error(self) -> Draft | None:
        """The repro of an error that only eager ends by; None if it does not fail in clean processes."""
        return self._that_holds(partial(self._level(MissingErrorLevel).draft, self.known))

    def measured(self, kind: Kind) -> Health | None:
        """The cost of a run of the script, measured as findings of this kind need it; None if no run completed."""
        surveys = self.parts.surveys
        return surveys.costs() if kind.is_figure else surveys.first

    def costliest(self, kind: Kind, health: Health) -> Cause | None:
        """The cause of the costliest finding of this kind in a run with this cost; None if there is none."""
        name = self.parts.job.script.name
        if kind.is_figure:
            found = figures_of(kind, health, name, self.parts.surveys.crowding)
        else:
            found = causes_of(kind, health.broken, health.recompiled, name)
        return found[0] if found else None

    def by_finding(self, kind: Kind, cause: Cause, health: Health, otherwise: Settled) -> Draft | None:
        """The repro of a finding.

        None if the script runs in several processes or does not show the finding when run by itself.
        """
        job = self.parts.job
        fold.checked(self.journal.report, checked_of(otherwise.checked, self.exact))
        if kind.is_figure:
            fault = announce(kind, cause, self.known, self.journal)
            if not self._stands_alone:
                return None
            draft = self._tried("the graph, by what it costs", partial(self._by_cost, kind, cause, health, fault))
            if draft is None and kind is Kind.MEMORY:
                draft = self._tried("the script, by what it saves", partial(self._by_saved, cause, self.known))
            return draft
        oracle = FindingOracle(self.parts.executor, job.script, kind, cause)
        level = FindingLevel(job.script, job.options.args, self.journal, oracle, jobs=job.settings.trial_jobs)
        fault = level.announce(self.known)
        return self._tried("the script, by its finding", partial(level.draft, fault)) if self._stands_alone else None

    def _by_cost(self, kind: Kind, cause: Cause, health: Health, fault: Fault) -> Draft | None:
        if cause.graph is None:
            return None
        signature = Signature(kind)
        case = self.parts.triage.held_first(cause.graph, signature)
        if case is None:
            return None
        oracle = Oracle(self.parts.executor, case.survey, (signature,))
        script = self.parts.job.script
        return CostLevel(case, kind, cause, self.journal, oracle=oracle, script=script, health=health).draft(fault)

    def by_draws(self, draws: OtherDraws, otherwise: Settled) -> Draft | None:
        """The repro of an operator that Inductor draws from another distribution.

        None if the script runs in several processes, or its graph does not show it when run by itself.
        """
        fold.checked(self.journal.report, checked_of(otherwise.checked, self.exact))
        fault = distribution.announce(draws, self.known, self.journal)
        if not self._stands_alone:
            return None
        route = partial(self._by_distribution, draws, fault)
        return self._that_holds(partial(self._tried, "the operator, by what it draws", route))

    def _by_distribution(self, draws: OtherDraws, fault: Fault) -> Draft | None:
        signature = Signature(distribution.KIND)
        case = self.parts.triage.held_first(draws.graph, signature)
        if case is None:
            return None
        oracle = Oracle(self.parts.executor, case.survey, (signature,))
        level = distribution.DistributionLevel(case, draws, self.journal, oracle=oracle, script=self.parts.job.script)
        return level.draft(fault)

    def _by_saved(self, cause: Cause, fault: Fault) -> Draft | None:
        job = self.parts.job
        oracle = SavedOracle(self.parts.executor, job.script, cause)
        return SavedLevel(job.script, job.options.args, self.journal, oracle, jobs=job.settings.trial_jobs).draft(fault)

    def by_outer(self, otherwise: Settled) -> Draft | None:
        """The repro made of the script's calls of torch around its graphs; None if they do not fail in clean processes."""
        return self._that_holds(partial(self._level(OuterLevel).draft, otherwise, self.known))

    def by_parting(self, found: Case | ScriptCase) -> Draft | None:
        """The repro made of the calls of torch up to where eager and compiled part.

        None if they do not fail in clean processes.
        """
        level, known = self._level(PartingLevel), self.known
        if isinstance(found, Case):
            kind, original = found.signature.kind, self._original(found, known)
            return self._that_holds(lambda: level.draft(level.compared(), kind, original, known))
        otherwise = found.otherwise
        return self._that_holds(lambda: level.draft(level.compared(otherwise.exception), otherwise.kind, known=known))

    def by_reading(self, found: ScriptCase) -> Draft | Settled:
        """The repro of a call that overwrites a result, or flips the sign of a zero, that the script reads.

        Else a verdict on what it reads.
        """
        if not self._stands_alone:
            return unasked(found)
        level, seen = self._level(PartingLevel), Compared(why="there was no time to see")
        with suppressing_end_of_time():
            try:
                seen = level.compared()
            except TROUBLES as error:
                seen = Compared(why=f"{type(error).__name__}: {error}".rstrip(": "))
        parting, made = seen.parting, None
        if parting is not None:
            search = partial(level.draft, seen, seen.kind, EndsWell(), self.known, share=ONLY_SHARE)
            made = self._that_holds(search)
        if made is not None:
            return made
        if parting is not None and parting.is_of_reading:
            return unmade_reading(found, parting)
        if parting is not None and parting.is_of_values:
            return unmade_value(found, parting.what, seen.kind)
        if seen.is_equal:
            return unread(found)
        other = f"eager and compiled part by another failure ({parting.what})" if parting is not None else ""
        why = seen.why or other or (seen.sides.stopped if seen.sides is not None else "") or UNNOTED
        return maybe_read(found, why) if found.written_over else unread(found, why)

    def _that_holds(self, make: Callable[[], Draft | None]) -> Draft | None:
        """The draft of a search that is not of one graph, if it fails in clean processes.

        Else None, with the journal as before.
        """
        before, draft, holding = self.known, None, None
        # `TROUBLES` are caught so that the route by text is still tried, even for a hostile trace that parses but
        # cannot be rendered.
        try:
            with suppressing_end_of_time():
                draft = make()
                holding = self.parts.follow_up.if_it_holds(draft) if draft is not None else None
        except TROUBLES as error:
            self.journal.log(f"the search around the graphs came to an end: {type(error).__name__}: {error}"[:500])
        if holding is not None:
            return holding
        if draft is not None and self.journal.clock.left < LEAST_TIMEOUT:  # no time for the route by text
            return draft
        self.journal.record(before)  # nothing of that search stands
        if draft is not None:
            self.journal.show_instead({})
            self.journal.repro = None
        return None

    # routes
    # ---------------------------------------------------------------------------------------------------------------

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
            if not passed_by and self._stands_alone and case.signature.kind in VALUES:
                made = self._tried(SIDE_BY_SIDE, partial(self.by_parting, case))
                if made is not None:
                    return made
            if call > 1 and self._stands_alone and case.signature.kind in (Kind.WRONG_OUTPUT, Kind.RUNTIME_ERROR):
                made = self._tried(
                    f"{name}, with the calls that led to its call {call}",
                    partial(self.calls.by_sequence, case, self.known),
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

    def _other_graph(self, passed_by: list[int]) -> Case | None:
        """The next failing call of a graph not tried yet; None if there is none.

        A graph that does not compile ends every run.
        """
        with suppress(ChildFailed):
            found = self.parts.triage.without(passed_by)
            if isinstance(found, Case) and found.graph not in passed_by:
                return found
            if isinstance(found, Case):
                found.survey.close()
        return None

    # helpers
    # --------------------------------------------------------------------------------------------------------------

    def _level(self, level: Callable[..., T]) -> T:
        """A level that searches by trials of this job's script."""
        job = self.parts.job
        return level(self.parts.executor, job.script, job.options.args, self.journal, jobs=job.settings.trial_jobs)

    def _original(self, case: Case, known: Fault) -> SurveyedScript:
        repeats = passes_needed(known.announced.reproducibility)
        return SurveyedScript(self.parts.triage.surveys, case, repeats)

    def _tried(self, what: str, route: Callable[[], T]) -> T:
        """Try a route, and record how it ended."""
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


def unanswered(error: ChildFailed, case: Case) -> Settled:
    """The verdict if the graph of a failure, or of a suspect, cannot be captured."""
    if case.otherwise is not None:
        return unexamined(case.otherwise)
    summary = f"The script fails, but its graph cannot be taken apart: {error}."
    return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary)
