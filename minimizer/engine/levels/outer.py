"""From a script that raises around its graphs to a repro of its torch calls: trace → slice → reduce as a flat script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minimizer.engine.budget.patience import OUTER_SHARE, OUTER_STATEMENTS, TRACED_SHARE
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Outcome
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.script import PythonLevel
from minimizer.engine.outer.runs import trace
from minimizer.engine.outer.search import FlatScript, smallest
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.reduce.python import Source as Script
from minimizer.engine.survey.cases import Settled
from minimizer.engine.user_script.bundle import bundle
from minimizer.errors import BudgetExceeded
from minimizer.vocabulary import Kind, Step

RAISED = (Kind.COMPILE_ERROR, Kind.RUNTIME_ERROR)
"""Failures that torch raises; an exception of the script's own check is not among its calls of torch."""


class OuterLevel:
    """The search for a repro among the calls of torch that a script makes around its compiled graphs."""

    def __init__(self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int) -> None:
        self._executor, self._script, self._args, self._journal, self._jobs = executor, script, args, journal, jobs

    def draft(self, otherwise: Settled, known: Fault = UNKNOWN) -> Draft | None:
        """Trace the script and reduce the calls that raise like it; None if they do not, or are no shorter than the
        script. ``known``: the findings of earlier attempts.

        Raises:
            ChildFailed: the trace is malformed, or one of its graphs is too large.
        """
        try:
            script = Script.parse(bundle(self._script, self._args).text)
        except (SyntaxError, UnicodeDecodeError):
            return None
        if script.size < OUTER_STATEMENTS:
            return None
        rerun, clock = Rerun(self._executor, self._script), self._journal.clock
        outcome = found = None
        try:
            with self._journal.step(Step.LOCALIZE), clock.within(OUTER_SHARE * clock.left):
                rerun.target, outcome = rerun.failure(script.text)
                found = self._events(rerun)
        except BudgetExceeded:
            self._journal.watch()  # raises if the whole job's time is over
        if outcome is None or found is None or Script.parse(found.script.text).size >= script.size:
            return None
        self._journal.log(f"the program around the graphs: {found.events} events, {found.trials} trials")
        level = PythonLevel(self._executor, self._script, self._args, self._journal, jobs=self._jobs, flat=found.script)
        draft = level.draft(otherwise, known)
        if draft is None:
            return None
        return replace(draft, known=self._as_raised(draft.fault, script, outcome, found, rerun))

    def _as_raised(self, fault: Fault, script: Script, outcome: Outcome, found: FlatScript, rerun: Rerun) -> Fault:
        """The fault of ``found``, with its failure as the user's script raises it: ``outcome`` is that script's own run."""
        assert rerun.target is not None
        theirs = PythonLevel(self._executor, self._script, self._args, self._journal, jobs=self._jobs)
        told = theirs.failure_of(rerun.target, outcome, fault.announced.reproducibility)
        same = {name: getattr(told, name) for name in ("exception_type", "message", "traceback", "signature")}
        fault = fault.stating(**same).behind(found.trials, found.seconds, found.history)
        fault = fault.counting(
            lines_before=len(script.text.splitlines()), nodes_before=rerun.observed(script.text).calls
        )
        if found.guessed:
            fault = fault.blaming(fault.culprits[0].model_copy(update={"ops": [], "nodes": []}))
        return fault

    def _events(self, rerun: Rerun) -> FlatScript | None:
        if rerun.target is None or rerun.target.kind not in RAISED:
            return None
        seconds = TRACED_SHARE * self._journal.clock.left
        tracing = trace(self._executor, self._script.resolve(), self._args, timeout=seconds)
        program = tracing.program
        if tracing.why_not:
            self._journal.log(f"the program around the graphs is not known: {tracing.why_not}")
        if program is None or not program.calls:
            return None
        return smallest(program, rerun, self._script.name, jobs=self._jobs, watch=self._journal.watch)
