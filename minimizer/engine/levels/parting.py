"""From values that only a sequence of calls makes wrong to a script of them: trace → run side by side → slice.

The script runs the program around the graphs with the compiler and without, and asserts at the event where the two part. From there on it
is reduced like a user's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minimizer.engine.budget.patience import PARTED_SHARE, TRACE_SHARE
from minimizer.engine.child.executor import Executor
from minimizer.engine.diagnose import Original
from minimizer.engine.diagnose.original import RerunScript
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.outer.paired import control
from minimizer.engine.outer.parting import Parted, smallest_parting, told
from minimizer.engine.outer.program import GRAPH
from minimizer.engine.outer.runs import compared, trace
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Settled
from minimizer.errors import BudgetExceeded
from minimizer.report.culprit import Source
from minimizer.vocabulary import Kind, Reason, Status, Step

VALUES = (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
"""Failures that a program run side by side can show."""


class PartingLevel:
    """The search among the calls of torch around compiled graphs for those after which eager and compiled part."""

    def __init__(self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int) -> None:
        self._executor, self._script, self._args, self._journal, self._jobs = executor, script, args, journal, jobs

    def draft(self, kind: Kind | None, original: Original | None = None) -> Draft | None:
        """Trace the script, and reduce the calls that part; None where none does, or their inputs have no short text.

        Args:
            kind: that of the script's failure.
            original: the user's script, for the diagnosis; by default judged by how it ends.

        Raises:
            ChildFailed: the trace is malformed, or a graph of it too large.
        """
        made, clock = None, self._journal.clock
        try:
            with self._journal.step(Step.LOCALIZE), clock.within(PARTED_SHARE * clock.left):
                made = self._made(kind, original)
        except BudgetExceeded:
            self._journal.watch()  # raises where it was the time of the whole job
        if made is None:
            return None
        script, found = made
        level = PythonLevel(self._executor, self._script, self._args, self._journal, jobs=self._jobs, made=script)
        draft = level.draft(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=kind))
        if draft is not None:
            self._journal.fault = self._journal.fault.behind(found.trials, found.seconds, found.history)
        return draft

    def _made(self, kind: Kind | None, original: Original | None) -> tuple[MadeScript, Parted] | None:
        """A script of the calls that part, and how it was found."""
        clock = self._journal.clock
        tracing = trace(self._executor, self._script.resolve(), self._args, timeout=TRACE_SHARE * clock.left)
        program = tracing.program
        if tracing.why_not:
            self._journal.log(f"the program around the graphs is not known: {tracing.why_not}")
        if program is None or not program.calls:
            return None
        sides, why = compared(self._executor, program, tracing.file, TRACE_SHARE * clock.left)
        first = sides.first if sides is not None else None
        if first is None or not (first.own and first.rule):  # an error, or a difference that was carried on
            self._journal.log(f"the program around the graphs does not part by a value: {why or 'no event is wrong'}")
            return None
        if original is not None and not is_like(kind, program.events[first.event].kind):
            self._journal.log(f"eager and compiled part first by another failure than the call's: {first.what}")
            return None
        self._journal.log(f"eager and compiled part at event {first.event}: {told(program, first.event)}: {first.what}")
        rerun = Rerun(self._executor, self._script)
        found = smallest_parting(program, first, rerun, jobs=self._jobs, watch=self._journal.watch)
        if found is None:
            return None
        self._journal.log(f"the program around the graphs: {found.events} events, {found.trials} trials")
        script = MadeScript(
            text=found.script,
            original=original or RerunScript(rerun, self._script, self._args),
            module="",
            source=Source.of(program.events[first.event].source),
            cured=control,
            what=told(program, first.event),
            kind=kind,
        )
        return script, found


def is_like(kind: Kind | None, event: str) -> bool:
    """Whether an event of this kind may be what a failing call showed: its result, or its backward and what uses the gradients."""
    return (event == GRAPH) is (kind is not Kind.WRONG_GRADIENT)
