"""Exact runs of one script, with and without the compiler: finds and confirms the first call at which they differ.

Both run eager's own kernels, so everything that a script can see must be equal to the bit. Looks are sparse at first
(calls 1, 2, 4, 8 …), and dense only where the runs differ. What differs between two runs without the compiler is noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from minimizer.engine.between.answer import BY_LIBRARY, Answer, Found, answer_of, unanswered
from minimizer.engine.between.confirming import Confirming, sees_eager
from minimizer.engine.between.difference import Comparison, compared, first_difference
from minimizer.engine.between.noise import ROUNDS, Noise
from minimizer.engine.between.script_runs import ALL, Children, ScriptRuns
from minimizer.engine.child.exact_log import ExactLog, Look
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.reduce.python.seeds import states
from minimizer.engine.survey.cases import is_own_check
from minimizer.inside.questions import Conditions, Plan
from minimizer.report.excused import Excused, excused

BY_NO_RUN = excused("exact_unconfirmed").rule
OF_OURS = "inside/exact/"
"""Part of the file path of an error in our own code."""


class ExactRuns:
    """Runs texts under the path of the user's script.

    ``line_of``: the line at a look, as a reader of that script sees it.
    """

    def __init__(
        self,
        executor: Executor,
        path: Path,
        *,
        timeout: float,
        line_of: Callable[[Look], str] = lambda look: f"line {look.line}",
    ) -> None:
        self._children = Children(executor, path, timeout=timeout)
        self._line_of = line_of
        self._states = states()
        self._last = Conditions()
        """The conditions of the last comparison, including what the script read of the machine in its first run."""
        self._eager: ExactLog | None = None
        """The log of that first run; None if the script could not be looked at closely."""
        self.looked_at_wrappers = False
        """Whether the script looked at a wrapper of ``torch.compile`` in that run."""

    @property
    def runs(self) -> int:
        """The number of runs so far."""
        return self._children.made

    @property
    def slowest(self) -> float:
        """Seconds of the slowest run that ended well; 0 if none did."""
        return self._children.slowest

    def compare(self, text: str) -> Answer:
        """Run a script with and without the compiler, and confirm a difference by further runs.

        If torch's own modules compute something else when compiled, eager takes their compiled branch too; if the
        script delays printed lines to the end of their graph, the runs are repeated without that delay.
        """
        answer = self._compared(text, Conditions(state=next(self._states)))
        if answer.found is not None and answer.found.is_by_library:
            answer = self._compared(text, replace(answer.found.conditions, library=True, replay=None))
            by_library = excused("exact_library"), *answer.excused
            answer = replace(answer, not_compared=(BY_LIBRARY, *answer.not_compared), excused=by_library)
        if (found := answer.found) is not None and found.is_reordered:
            known = answer.excused
            answer = self._compared(text, replace(found.conditions, in_order=True, replay=None))
            moved = excused("exact_reordered", found.difference.first.path)
            answer = replace(answer, excused=(*known, moved, *answer.excused))
        if answer.found is not None or answer.aside or answer.ended or answer.failed_check:
            return answer
        return self._traced(text, answer)

    def _traced(self, text: str, answer: Answer) -> Answer:
        """The answer of runs in which AOTAutograd traces the graphs, if it is a difference; else ``answer``, that of
        the other runs.

        An error that ends the script is left to the comparison of graphs, which sees it as well.
        """
        eager, conditions = self._eager, replace(self._last, aot=True)
        if eager is None:
            return answer
        (compiled,) = ScriptRuns(self._children, text, conditions).ask(Plan())
        if compiled.ending is not Ending.SAME or compiled.exact is None:
            return self._also_open(answer, *unanswered(self._broken(compiled)).excused)
        seen = compared(eager, compiled.exact, Noise(rounds=True))
        if seen.difference is None:
            rounded = (excused(rule, path, count) for (rule, path), count in seen.excused.items() if rule == ROUNDS)
            return self._also_open(answer, *rounded)
        traced = self._compared(text, replace(conditions, replay=None))
        if traced.found is not None:
            return traced
        return self._also_open(answer, *(one for one in traced.excused if one.rule in (ROUNDS, BY_NO_RUN)))

    def _also_open(self, answer: Answer, *more: Excused) -> Answer:
        """An answer with what the runs through AOTAutograd left open."""
        return replace(answer, runs=self.runs, excused=(*answer.excused, *more))

    def cures(self, text: str, found: Found, plan: Plan) -> bool:
        """Whether a compiled run by this plan sees what eager sees at the look of the difference."""
        return sees_eager(ScriptRuns(self._children, text, found.conditions), found, plan)

    def agreeing(self, text: str, found: Found) -> ExactLog | None:
        """The log of a changed script's compiled run, from another random state.

        None if it differs from eager, minus the noise of the difference, or if either run does not end well.
        """
        runs = ScriptRuns(self._children, text, replace(found.conditions, replay=None, state=next(self._states)))
        eager = runs.log(Plan(eager=ALL))
        if eager is None:
            return None
        compiled = replace(runs, conditions=replace(runs.conditions, replay=eager.reads or None)).log(Plan())
        if compiled is None:
            return None
        return compiled if first_difference(eager, compiled, found.noise.without_moments()) is None else None

    def ends(self, text: str, *plans: Plan, is_live: bool = False) -> list[ExactLog | None]:
        """Runs of the last compared script, with a single look at its end; None for a run that does not get there.

        ``is_live``: each run reads the machine itself, instead of a replay of the first run.
        """
        replay = None if is_live else self._last.replay
        runs = ScriptRuns(self._children, text, replace(self._last, library=False, aot=False, replay=replay))
        outcomes = runs.ask(*(replace(plan, full=()) for plan in plans))
        return [
            o.exact if o.ending is Ending.SAME and o.exact is not None and o.exact.is_whole else None for o in outcomes
        ]

    def _compared(self, text: str, conditions: Conditions) -> Answer:
        runs, plan = ScriptRuns(self._children, text, conditions), Plan()
        eager, compiled = runs.ask(replace(plan, eager=ALL, through=()), plan)
        broken = self._broken(eager, compiled)
        if broken:
            plan = Plan(full=())
            eager, compiled = runs.ask(replace(plan, eager=ALL, through=()), plan)
        reads = (eager.exact.reads or None) if eager.exact is not None else None
        self._last, self._eager = replace(conditions, replay=reads), None if broken else eager.exact
        self.looked_at_wrappers = eager.exact is not None and bool(eager.exact.glances)
        confirming = Confirming(replace(runs, conditions=self._last), draws=eager.draws, place=self._place)
        for outcome in (eager, compiled):
            if outcome.ending is not Ending.SAME or outcome.exact is None:
                if outcome is compiled and eager.exact is not None and not failed_check(compiled):
                    found = _before_it_ended(confirming, plan, eager.exact, compiled.exact)
                    if found is not None:
                        noise, log = confirming.excused, found.compiled
                        return answer_of(found, broken=broken, noise=noise, compiled=log, runs=self.runs)
                why = self._broken(eager, compiled) or f"a run of the script ended early ({outcome.ending})"
                check = failed_check(outcome) if eager.ending is Ending.SAME else ""
                return replace(unanswered(why, runs=self.runs), failed_check=check)
        assert eager.exact is not None and compiled.exact is not None
        if compiled.exact.calls == 0 or not compiled.attempted:
            return Answer(aside="nothing was compiled", runs=self.runs)
        seen = compared(eager.exact, compiled.exact, Noise(rounds=conditions.aot))
        if seen == Comparison() and not conditions.modules and compiled.exact.packages:
            return self._compared(text, replace(conditions, modules=tuple(compiled.exact.packages)))
        end = (
            confirming.examined(plan, eager.exact, compiled.exact)
            if seen.difference is not None
            else confirming.ended(seen)
        )
        return answer_of(end, broken=broken, noise=confirming.excused, compiled=compiled.exact, runs=self.runs)

    def _place(self, look: Look) -> str:
        """A moment of the script, in words."""
        if look.event == "end":
            return "the end of the script"
        return f"{look.named} ({self._line_of(look)})"

    def _broken(self, *outcomes: Outcome) -> str:
        """Why a run did not complete, if our observation may be the cause.

        Empty if it completed, or the script ended it.
        """
        for outcome in outcomes:
            if outcome.ending is Ending.TIMEOUT:
                return f"a run of the script took longer than {self._children.timeout:.0f} s"
            error = outcome.exception
            if error is not None and any(OF_OURS in file for file, _, _ in error.frames[-3:]):
                return f"our own code raised {error.type}"
            if outcome.exact is None and error is None:
                return f"a run of the script ended early ({outcome.ending})"
        return ""


def _before_it_ended(confirming: Confirming, plan: Plan, eager: ExactLog, compiled: ExactLog | None) -> Found | None:
    """The confirmed difference before an error of the script's own that only the compiled run raises."""
    if compiled is None or compiled.calls == 0 or compared(eager, compiled).difference is None:
        return None
    found = confirming.examined(plan, eager, compiled)
    return found if isinstance(found, Found) else None


def failed_check(outcome: Outcome) -> str:
    """The name of the exception by which a check of the script's own ended a run; empty for other ends."""
    error = outcome.exception
    return error.root_type.rpartition(".")[2] if error is not None and is_own_check(error) else ""
