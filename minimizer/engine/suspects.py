"""The suspects of a job, as values that wait in one `order`: what may hold its fault, and drafts that a better one may
replace.

An attempt at a suspect results in a draft of its repro, in the next suspect, or in a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from minimizer.engine import fold
from minimizer.engine.advice import rules
from minimizer.engine.between.answer import Found
from minimizer.engine.budget.clock import suppressing_end_of_time
from minimizer.engine.budget.patience import BLAME_SHARE, VERIFY_SECONDS
from minimizer.engine.child import protocol
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.window import Unreduced
from minimizer.engine.reduce.graph.public_names import is_public
from minimizer.engine.routes import Routes
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, Surveyed, is_healthy, is_starved
from minimizer.engine.survey.plain_pair import PlainPair
from minimizer.engine.survey.rules import verdict_by
from minimizer.engine.survey.verdict_rules import PLAIN
from minimizer.engine.survey.verdicts import layout_unmade
from minimizer.engine.verify.reserve import to_verify
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.inside.questions import GivenInput, TrialRequest
from minimizer.vocabulary import Kind, Reason, Status, Step

WARM_UP = TrialRequest(
    setup="import torch",
    source="def f(x):\n    return x + 1\n",
    name="f",
    inputs=[GivenInput(name="x", code="torch.ones(8)")],
)
"""A trial run in parallel to the survey: it precompiles the compiler's headers before the script's first kernel is
built.
"""
FIRMER = (
    "A smaller program failed in our forked trials but passed in a fresh process, as code does that reads uninitialised memory. "
    "This repro is the smallest that also fails in a fresh process."
)

NOT_FOUND = {
    Kind.RECOMPILES: "No function is compiled again more often than dynamic shapes and a switch to evaluation take.",
    Kind.GRAPH_BREAK: "There is no graph break but those that the script asks for, or that torch itself makes.",
    Kind.COMPILE_TIME: "No graph takes so long to compile that it is a finding.",
    Kind.MEMORY: "No compiled graph keeps so much more for its backward than eager does that it is a finding.",
    Kind.SLOW: "No compiled graph was measured to be slower than eager by more than its calls differ.",
}
"""The summary for a script without a finding of the requested kind."""
UNMEASURED = "No compiled run of the script came to its end and was measured, so that what it costs is not known."
UNTIMED = "Too few calls of compiled code could be timed"
UNSHOWN = (
    "No repro was made: the script does not show it by itself in one process, or what is left of it cannot assert it."
)


@dataclass(frozen=True)
class Verified:
    """A draft that ran in clean processes; its fault holds the outcome and the verdict."""

    draft: Draft


@dataclass(frozen=True)
class Unpublic:
    """The draft of a graph that calls private operators: the reduced script may show the same failure in no more lines."""

    draft: Draft

    def attempt(self, routes: Routes) -> Draft:
        return _better(self.draft, self._by_script, routes)

    def _by_script(self, routes: Routes) -> Draft | None:
        """The draft with the script as its repro; the blame stays that of the graph."""
        known, clock = self.draft.fault, routes.journal.clock
        kind = known.announced.kind
        with clock.reserving(partial(to_verify, clock.pace, kind), BLAME_SHARE):
            same = Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=kind)
            script = routes.by_script(same) if routes.parts.job.options.stands_alone else None
        if script is None or script.repro.kind is not kind or script.repro.lines > self.draft.repro.lines:
            return None
        # Figures of the graph: observing the script may break a transform.
        nodes = {"nodes_before": known.reduced.nodes_before, "nodes_after": known.reduced.nodes_after}
        known = replace(known, reduction=script.fault.reduced.model_copy(update=nodes))
        return replace(self.draft, repro=script.repro, known=known, data=None, details=None, way=None)


@dataclass(frozen=True)
class Unfirm:
    """A draft that never failed in a clean process, with notes on those runs: a less reduced one may fail there."""

    draft: Draft
    complaints: tuple[str, ...]

    def attempt(self, routes: Routes) -> Verified:
        draft = _better(self.draft, self._reduced_less, routes)
        return _decided(draft, self.complaints if draft is self.draft else [FIRMER], routes)

    def _reduced_less(self, routes: Routes) -> Draft | None:
        again = replace(self.draft, known=replace(self.draft.known, verification=None))
        firm = routes.graphs.firmer(again, routes.parts.follow_up.fails)
        if firm is None:
            return None
        seen, _, firm = routes.parts.follow_up.verified(firm)
        return firm if seen.holds else None


@dataclass(frozen=True)
class Between:
    """A difference between graphs, seen in exact runs.

    ``is_checked``: whether a check of the script's own also shows it.
    """

    difference: Found
    is_checked: bool

    def attempt(self, routes: Routes) -> Draft | Settled | None:
        """The repro; without an assertable rest of the script, a verdict and a workaround.

        None, with the report unchanged, if there is no repro and a check of the script's own also shows the fault.
        """
        between, journal, before = routes.parts.between, routes.journal, routes.journal.fault
        stands_alone = routes.parts.job.options.stands_alone
        try:
            draft = between.draft(self.difference, before, reduces=stands_alone)
        except ChildFailed as error:
            journal.log(f"between graphs: {error}")
            draft = None
        if draft is not None:
            return draft
        if self.is_checked:
            journal.record(before)
            return None
        failure = journal.fault.announced
        routes.parts.follow_up.work_around(partial(between.workaround, self.difference, failure.mechanism))
        why = "what differs cannot be asserted at the end of a smaller script"
        if not stands_alone:
            why = "the script differs between its graphs while it is driven from outside, and no repro is"
        return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, f"{failure.message} No repro was made: {why}.")


@dataclass(frozen=True)
class Graphs:
    """The graphs of the script: surveyed first, unless a failing call is already held; the script's text if no graph
    carries its failure.
    """

    held: Case | None = None

    def attempt(self, routes: Routes) -> Draft | Suspect | Settled:
        found = self.held or self._survey(routes)
        end = found if isinstance(found, Settled) else routes.follow(found)
        if isinstance(end, Draft) or routes.is_beside:
            return end if isinstance(end, Settled) else _drafted(end)
        if end.draws is not None:
            return OtherDraws(end.draws, end)
        asked = routes.parts.job.options.expected_finding
        is_uncompiled = end.reason is Reason.NOTHING_COMPILED  # a graph break may be why; a figure needs a graph
        if asked is not None and (is_healthy(end) or (is_uncompiled and not asked.is_figure)):
            return Costly(asked, end)
        # Plain runs are the next step if no failure was seen, or one that we cannot explain.
        is_error = isinstance(found, ScriptCase) and end.reason is Reason.NOT_VERIFIED and end.kind is not Kind.HANG
        return Untouched(end) if is_healthy(end) or is_starved(end) or is_error else _at_last(end, routes)

    def _survey(self, routes: Routes) -> Surveyed:
        """The outcome of the surveyed runs of the script."""
        parts = routes.parts
        with routes.journal.step(Step.SURVEY):
            parts.beside.submit(parts.executor.judge, [WARM_UP], timeout=VERIFY_SECONDS)
            try:
                return parts.triage.run()
            except BudgetExceeded as error:
                if not error.is_time:
                    raise
                raise BudgetExceeded(f"{error}, {parts.surveys.doing}") from None


@dataclass(frozen=True)
class OtherDraws:
    """An operator that Inductor's own generator draws from another distribution, of a script that got this verdict."""

    draws: protocol.OtherDraws
    verdict: Settled

    def attempt(self, routes: Routes) -> Draft | Settled:
        """The repro; else the verdict: what was seen stays so."""
        why = "No repro was made in the time."
        with suppressing_end_of_time(), suppress(ChildFailed):
            if (made := routes.by_draws(self.draws, self.verdict)) is not None:
                return made
            why = UNSHOWN
        return replace(self.verdict, summary=f"{self.verdict.summary} {why}")


@dataclass(frozen=True)
class Costly:
    """A script that shows no failure, or compiles nothing, whose costliest finding of this kind was requested."""

    kind: Kind
    verdict: Settled

    def attempt(self, routes: Routes) -> Draft | Untouched | Settled:
        """The repro of the finding; else the verdict, where plain runs have yet to confirm a healthy one."""
        health = routes.measured(self.kind)
        cause = routes.costliest(self.kind, health) if health is not None else None
        if cause is None and not is_healthy(self.verdict):
            return self.verdict
        if health is None or (self.kind is Kind.SLOW and rules.untimed(health)):
            why = UNMEASURED if health is None else f"{UNTIMED}: {rules.untimed(health)}."
            unknown = f"{why} {self.verdict.summary}"
            return Settled(Status.PARTIAL, Reason.NOT_VERIFIED, unknown, self.verdict.checked)
        if cause is None:
            return Untouched(replace(self.verdict, summary=f"{NOT_FOUND[self.kind]} {self.verdict.summary}"))
        draft = routes.by_finding(self.kind, cause, health, self.verdict)
        if draft is not None:
            return draft
        return Settled(
            Status.PARTIAL, Reason.NOT_VERIFIED, f"{cause.finding.what} {UNSHOWN}", checked=self.verdict.checked
        )


@dataclass(frozen=True)
class Untouched:
    """The script run as plain ``python SCRIPT``, after our own runs came to a verdict."""

    verdict: Settled

    def attempt(self, routes: Routes) -> Draft | Layout | Settled:
        """The repro of a failure that plain runs show.

        Else the verdict, revised by plain runs or by what the script sees of wrappers.
        """
        found, plain = self.verdict, routes.parts.plain
        beyond = self._past_wrappers(routes)  # while plain runs go on in parallel
        try:
            verdict = verdict_by(PLAIN, PlainPair(found, plain, *plain.pair()))
            end = routes.as_it_runs_plainly(verdict, plain) if verdict is not found else verdict
        finally:
            fold.attempted(routes.parts.job.report, [*routes.tried, *plain.attempts])
        if isinstance(end, Draft):
            return end
        if beyond is not found and is_healthy(end):
            return replace(end, status=beyond.status, reason=beyond.reason, summary=beyond.summary)
        return _at_last(end, routes)

    def _past_wrappers(self, routes: Routes) -> Settled:
        """The verdict; for a healthy script that behaves differently because it sees the compiler's wrappers, that as
        the verdict.
        """
        if not is_healthy(self.verdict) or not routes.exact.looks:
            return self.verdict
        try:
            with suppressing_end_of_time(), routes.journal.step(Step.EXACT):
                return routes.parts.between.past_wrappers(self.verdict)
        except ChildFailed as error:
            routes.journal.log(f"wrappers: {error}")
        return self.verdict


@dataclass(frozen=True)
class Layout:
    """A call that differs in its memory layout only, of a script that got this verdict."""

    seen: protocol.Seen
    verdict: Settled

    def attempt(self, routes: Routes) -> Draft | Unpublic | Settled:
        case = routes.parts.triage.held_for_layout(self.seen, self.verdict)
        if case is None:
            return layout_unmade(self.verdict, "its graph could not be captured a second time.")
        try:
            return _drafted(routes.by_graph(case))
        except (Unreduced, ChildFailed) as error:
            return layout_unmade(self.verdict, str(error))


def verified(draft: Draft, routes: Routes) -> Verified | Unfirm:
    """Run a draft in clean processes.

    One that never fails there becomes `Unfirm`, if its search can go back to a firmer one.
    """
    if not routes.is_beside:
        routes.journal.watch()
    seen, complaints, draft = routes.parts.follow_up.verified(draft)
    never_fails = not (seen.failed_same or seen.stopped) and seen.passes_with_compiler_off
    if never_fails and draft.way is not None:
        return Unfirm(draft, tuple(complaints))
    return _decided(draft, complaints, routes)


def _decided(draft: Draft, notes: Iterable[str], routes: Routes) -> Verified:
    for note in notes:
        routes.journal.note(note)
    return Verified(routes.parts.follow_up.decide(draft))


def _better(known: Draft, find: Callable[[Routes], Draft | None], routes: Routes) -> Draft:
    """A better draft than the known one, or else the known one, published again with its fault."""
    found = None
    try:
        with suppress(BudgetExceeded, ChildFailed):
            found = find(routes)
        return found or known
    finally:  # also if the owner stops the search
        if found is None:
            known.keep(routes.journal)


def _at_last(verdict: Settled, routes: Routes) -> Layout | Settled:
    """The last resort: a memory layout that differs, unless the verdict is already a failure."""
    layouts = routes.parts.triage.layouts
    is_open = verdict.kind is None and verdict.status in (Status.HEALTHY, Status.PARTIAL)
    return Layout(layouts[0], verdict) if layouts and is_open else verdict


def _drafted(draft: Draft) -> Unpublic | Draft:
    """The draft of a graph; first `Unpublic` if it calls private operators."""
    return draft if draft.found is None or is_public(draft.found.reduced) else Unpublic(draft)


Suspect = Unpublic | Unfirm | Between | Graphs | OtherDraws | Costly | Untouched | Layout


def order(suspect: Suspect) -> int:
    """The rank of a suspect in the queue; 0 is attempted first.

    With two faults that have a repro, `after/graph_beside_between.in_order` chooses the job's own. Faults that only
    PyTorch's own tools find come last, as a script with suspects of its own.
    """
    ways = (
        Unpublic,  # improve a draft that exists first
        Unfirm,
        Between,  # its trials compile no kernel; the graphs wait, to get a repro of their own
        Graphs,
        OtherDraws,  # their values are right
        Costly,  # the graphs are right
        Untouched,  # failures that our own runs do not show
        Layout,  # ranks below every other failure
    )
    return ways.index(type(suspect))
