"""Triage: does the script fail, and how? Runs it compiled and in eager, before any reduction.

The result is a `Case` (a failing call of a graph, held in the child), a `ScriptCase` (a failure without a graph), or a
`Settled` verdict, with the reason why there is nothing to reduce. The tables of `verdict_rules` judge each run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from minimizer.engine.budget.patience import REPEAT_SECONDS, SURVEYS
from minimizer.engine.child import protocol
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, Surveyed, is_healthy
from minimizer.engine.survey.holding import Holding, Suspects
from minimizer.engine.survey.observed import EndedRun, HeldRun, UnendedRun
from minimizer.engine.survey.rules import Rules, Seen, decide
from minimizer.engine.survey.runs import Surveys, is_cut_while_compiling
from minimizer.engine.survey.verdict_rules import ENDED, HELD, UNENDED
from minimizer.engine.survey.verdicts import other_draws, too_little
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.inside.questions import HoldPlace
from minimizer.vocabulary import Reason, Status


class Triage:
    """Judges the runs of one script.

    ``repeat_seconds``: seconds after which a healthy script is not run again. ``on_healthy``: called after the first
    healthy run, before the next one. ``log``: called with the rule behind each verdict.
    """

    def __init__(
        self,
        surveys: Surveys,
        *,
        on_note: Callable[[str], None],
        log: Callable[[str], None] = lambda text: None,
        on_healthy: Callable[[], None] = lambda: None,
        repeat_seconds: float = REPEAT_SECONDS,
    ) -> None:
        self.surveys, self._on_note, self._repeat_seconds = surveys, on_note, repeat_seconds
        self._log = log
        self._on_healthy = on_healthy
        self._holding = Holding(surveys, on_note)
        self.suspects = Suspects(self._holding)
        self.layouts: list[protocol.Seen] = []
        """Calls of the last completed run that differ only in their memory layout, and were passed by for that reason.
        """
        self._written_over = ""
        """The first call that overwrote an earlier output outside of CUDA graph memory."""
        self._other_zeros = ""
        """The first call with a result that is right except for the sign of a zero."""
        self._behind_change = ""
        """The first backward before which the script had changed an input of its call."""
        self._only_compiled = False
        """Whether the time of the last run ended while it compiled, or before it had compared a call."""
        self._draws: protocol.OtherDraws | None = None
        """The first random operator that draws otherwise than in eager; None if none is seen to."""

    def run(self) -> Surveyed:
        """Run the script until it fails or gets a verdict; a healthy one several times.

        The first run fills the compiler's caches, and the second reads them.
        """
        started, runs, earlier = time.monotonic(), 1, 0
        found = self._first()
        if is_healthy(found):
            self._on_healthy()
        with suppress(BudgetExceeded, ChildFailed):  # keep the result of earlier runs
            while is_healthy(found) and runs < SURVEYS and self._is_worth_another(time.monotonic() - started):
                earlier = self.surveys.plan.runs
                found, runs = self._once(caches=runs == 1), runs + 1
        suspect = partial(
            ScriptCase,
            written_over=self._written_over,
            other_zeros=self._other_zeros,
            behind_change=self._behind_change,
        )
        is_suspect = is_healthy(found) and bool(self._written_over or self._other_zeros or self._behind_change)
        if isinstance(found, Settled) and is_healthy(found) and (untouched := self.surveys.plan.untouched):
            found = too_little(found, untouched)
        if isinstance(found, Case):
            if rank := self.surveys.plan.rank:
                self._on_note(
                    f"Rank {rank} of {self.surveys.plan.count} shows this: the ranks before it showed no failure."
                )
            passed = self.surveys.plan.passed(found.signature.kind, found.graph, found.call, earlier=earlier)
            return replace(found, runs=found.runs + passed, is_warm=passed == 1 and runs == 2, is_cached=runs <= 2)
        if runs == 1:
            return suspect(found) if isinstance(found, Settled) and is_suspect else self._with_draws(found)
        said = f"The script was run {runs} times." if is_healthy(found) else f"This showed in 1 of {runs} runs."
        settled = found.otherwise if isinstance(found, ScriptCase) else found
        settled = replace(settled, summary=f"{settled.summary} {said}", runs=runs)
        if isinstance(found, ScriptCase):
            return ScriptCase(settled)
        return suspect(settled) if is_suspect else self._with_draws(settled)

    def _first(self) -> Surveyed:
        """The result of the first run; of one that begins with its kernels, where its time ended with no more than they."""
        found = self._once(caches=True)
        if self._only_compiled and isinstance(found, Settled) and found.reason is Reason.BUDGET:
            with suppress(BudgetExceeded, ChildFailed):  # keep the result of the first run
                return self._once(caches=True)
        return found

    def _with_draws(self, found: Surveyed) -> Surveyed:
        """The verdict, unless a healthy script was seen to draw otherwise than in eager."""
        if self._draws is not None and isinstance(found, Settled) and is_healthy(found):
            return other_draws(found, self._draws)
        return found

    def _is_worth_another(self, seconds: float) -> bool:
        """Whether to rerun a script that is healthy so far, for flaky failures or the rest of the coverage plan."""
        is_early = seconds < self._repeat_seconds or not self.surveys.plan.is_complete
        return is_early and self.surveys.affords_another

    def _once(self, *, caches: bool = False) -> Surveyed:
        """The result of a run, by the rules for its final state."""
        survey = self.surveys.next(caches=caches)
        self._only_compiled = self.surveys.values and is_cut_while_compiling(survey)
        if survey.held is not None:
            return self._judged(HELD, HeldRun(survey, survey.held, self._holding))
        if survey.finished is None:
            return self._judged(UNENDED, UnendedRun(survey, self._holding))
        for note in survey.finished.notes:
            self._on_note(note)
        self.layouts = survey.finished.layouts or self.layouts
        self._written_over = self._written_over or survey.finished.written_over
        self._other_zeros = self._other_zeros or survey.finished.other_zeros
        self._behind_change = self._behind_change or survey.finished.behind_change
        self._draws = self._draws or survey.finished.draws
        return self._judged(ENDED, EndedRun(survey.finished, self._holding, self.suspects))

    def _judged(self, rules: Rules[Seen, Surveyed], run: Seen) -> Surveyed:
        rule, found = decide(rules, run)
        self._log(f"rule: {rule.name}")
        return found

    def held_at(self, case: Case) -> Case | None:
        """The call of a case, held again just before compiled code makes it; None if it cannot be held."""
        place = HoldPlace(case.graph, case.call) if case.graph is not None else None
        return self._holding.case_at(place, case.signature)

    def held_first(self, graph: int, signature: Signature) -> Case | None:
        """The first call of a graph, held for a failure with this signature; None if it cannot be held."""
        return self._holding.case_at(HoldPlace(graph, 0), signature)

    def without(self, graphs: Sequence[int]) -> Surveyed:
        """The result of a run that does not compare calls of these graphs; neither do later runs."""
        self.surveys.pass_by(graphs)
        return self._once()

    def held_for_layout(self, seen: protocol.Seen, otherwise: Settled) -> Case | None:
        """A call that differs in layout only, held; None if it cannot be held.

        ``otherwise``: the verdict without it, whose coverage is that of a whole run, not that up to the call.
        """
        if otherwise.status is Status.PARTIAL:  # keep the reason for the gaps in the comparison
            self._on_note(otherwise.summary)
        case = self._holding.by_layout(seen)
        return replace(case, checked=otherwise.checked) if case is not None and case.is_layout else case
