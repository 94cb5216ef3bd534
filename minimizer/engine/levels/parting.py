"""From values that only a sequence of calls makes wrong to a script of them: trace → run side by side → slice.

The script runs the program around the graphs with the compiler and without, and asserts at the event where the two
sides part. Then it is reduced like a user's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minimizer.engine.budget.patience import PARTED_KEPT_SHARE, PARTED_SHARE, TRACE_SHARE
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.traced import Parting, Sides
from minimizer.engine.diagnose import Original
from minimizer.engine.diagnose.effect import Effect
from minimizer.engine.diagnose.original import RerunScript, SurveyedScript
from minimizer.engine.diagnose.workaround import Tried
from minimizer.engine.findings import UNKNOWN, Fault
from minimizer.engine.journal import Journal
from minimizer.engine.levels.draft import Draft
from minimizer.engine.levels.script import MadeScript, PythonLevel
from minimizer.engine.oracle.signature import NONFINITE, Signature
from minimizer.engine.outer.checks import read_by_check
from minimizer.engine.outer.parting import Parted, smallest_parting, told
from minimizer.engine.outer.program import BACKWARD, GRAPH, OuterProgram
from minimizer.engine.outer.runs import compared, trace
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Settled
from minimizer.errors import BudgetExceeded, ChildFailed
from minimizer.report.culprit import Source
from minimizer.report.model import AlsoSeen, Failure, each_once
from minimizer.vocabulary import Kind, Reason, Status, Step

VALUES = (Kind.WRONG_OUTPUT, Kind.WRONG_GRADIENT)
"""Failures that a side-by-side run can show."""


class EndsWell:
    """A script that ends well unchanged, and only reads a wrong value: no run of it can confirm a change."""

    def run(self, text: str) -> Tried:
        """Raise, since a run shows nothing.

        Raises:
            ChildFailed: always.
        """
        raise ChildFailed("the script ends well without a change, so that no run of it confirms one")

    def effect(self, text: str) -> Effect | None:
        return None

    def passes_without(self, parts: list[str]) -> bool:
        """Raise, as `run` does.

        Raises:
            ChildFailed: always.
        """
        raise ChildFailed(
            "the script ends well with all parts of the compiler on, so that no run of it confirms the part"
        )


@dataclass(frozen=True)
class Compared:
    """The side-by-side run of the program around a script's graphs; None for unknown parts, with the reason in ``why``."""

    program: OuterProgram | None = None
    sides: Sides | None = None
    why: str = ""

    @property
    def parting(self) -> Parting | None:
        """The event to reduce: the first wrong one, or the first wrong one that the script's failing check reads."""
        return (self.sides.checked or self.sides.first) if self.sides is not None else None

    @property
    def others(self) -> Sequence[Parting]:
        """Wrong events other than `parting`."""
        first = self.sides.first if self.sides is not None else None
        return [first] if first is not None and first is not self.parting else []

    @property
    def kind(self) -> Kind | None:
        """The kind of failure of `parting`; None without one."""
        program, parting = self.program, self.parting
        return _kind_of(program, parting) if program is not None and parting is not None else None

    @property
    def is_equal(self) -> bool:
        """Whether the whole script was traced and run, and both sides agree."""
        program, sides = self.program, self.sides
        is_whole = program is not None and not (program.cut or program.left_out or self.why)
        return is_whole and sides is not None and sides.first is None and not sides.stopped


class PartingLevel:
    """The search for the calls of torch, around compiled graphs, after which eager and compiled part."""

    def __init__(self, executor: Executor, script: Path, args: Sequence[str], journal: Journal, *, jobs: int) -> None:
        self._executor, self._script, self._args, self._journal, self._jobs = executor, script, args, journal, jobs

    def compared(self, check: ExceptionInfo | None = None) -> Compared:
        """The script's program, traced and run side by side.

        Args:
            check: the exception of the script's own check, if that is its failure; a wrong event that the check reads
                takes precedence.

        Raises:
            ChildFailed: the trace is malformed, or one of its graphs is too large.
        """
        clock = self._journal.clock
        try:
            with self._journal.step(Step.LOCALIZE), clock.within(PARTED_SHARE * clock.left):
                return self._compared(check)
        except BudgetExceeded as error:
            self._journal.watch()  # raises if the whole job's time is over
            return Compared(why=str(error))

    def draft(
        self,
        compared: Compared,
        kind: Kind | None,
        original: Original | None = None,
        known: Fault = UNKNOWN,
        *,
        share: float = PARTED_SHARE,
    ) -> Draft | None:
        """Reduce the calls that part; None if none do, or their inputs have no short text.

        Args:
            compared: the script's program.
            kind: that of the script's failure.
            original: the user's script, for the diagnosis; by default judged by how it ends.
            known: the findings of earlier attempts.
            share: the most of the time left that may be spent to find these calls.

        Raises:
            ChildFailed: the child went away.
        """
        made, clock = None, self._journal.clock
        try:
            with self._journal.step(Step.LOCALIZE), clock.within(share * clock.left):
                made = self._made(compared, kind, original, known.failure)
        except BudgetExceeded:
            self._journal.watch()
        if made is None:
            return None
        script, found = made
        level = PythonLevel(self._executor, self._script, self._args, self._journal, jobs=self._jobs, made=script)
        draft = level.draft(Settled(Status.PARTIAL, Reason.NOT_VERIFIED, "", kind=kind), known)
        if draft is None:
            return None
        fault = draft.fault.behind(found.trials, found.seconds, found.history)
        also_seen = tuple(each_once([*fault.also_seen, *found.also_seen]))
        return replace(draft, known=replace(fault, also_seen=also_seen))

    def _compared(self, check: ExceptionInfo | None) -> Compared:
        clock = self._journal.clock
        tracing = trace(self._executor, self._script.resolve(), self._args, timeout=TRACE_SHARE * clock.left)
        program = tracing.program
        if tracing.why_not:
            self._journal.log(f"the program around the graphs is not known: {tracing.why_not}")
        if program is None or not program.calls:
            return Compared(why=tracing.why_not or "no call of a graph was noted")
        checked = self._read_by(check, program) if check is not None else frozenset[int]()
        return Compared(program, *compared(self._executor, program, tracing.file, TRACE_SHARE * clock.left, checked))

    def _made(
        self, compared: Compared, kind: Kind | None, original: Original | None, announced: Failure | None
    ) -> tuple[MadeScript, Parted] | None:
        """A script of the calls that part, and the search that found it. ``announced``: the failure of the script."""
        program, first = compared.program, compared.parting
        if program is None:
            return None
        if first is None or not first.is_of_values:  # an error, or a difference that was propagated
            why = compared.why or "no event is wrong"
            self._journal.log(f"the program around the graphs does not part by a value: {why}")
            return None
        also_seen = [_as_seen(program, one) for one in compared.others]
        if isinstance(original, SurveyedScript) and not is_like(kind, program.events[first.event].kind):
            # A failure too, reported under its own name; no run of the script's survey confirms it.
            self._journal.log(f"eager and compiled part first by another failure than the call's: {first.what}")
            if announced is not None:
                also_seen.append(
                    AlsoSeen(kind=announced.kind, signature=announced.signature, message=announced.message)
                )
            kind, original = _kind_of(program, first), EndsWell()
        self._journal.log(f"eager and compiled part at event {first.event}: {told(program, first)}: {first.what}")
        for other in compared.others:
            self._journal.log(f"event {other.event} is wrong too, which the check does not read: {other.what}")
        rerun = Rerun(self._executor, self._script)
        found = smallest_parting(program, first, rerun, jobs=self._jobs, watch=self._journal.watch)
        if found is None:
            return None
        self._journal.log(f"the program around the graphs: {found.events} events, {found.trials} trials")
        blamed = first.event if first.zeros_of is None else first.zeros_of
        script = MadeScript(
            text=found.script,
            original=original or RerunScript(rerun, self._script, self._args),
            module="",
            source=Source.of(program.events[blamed].source),
            cured=found.cured,
            what=told(program, first),
            kind=kind,
            kept_share=PARTED_KEPT_SHARE,
            mechanism="overwritten_result" if first.overwrites else None,
        )
        return script, replace(found, also_seen=also_seen)

    def _read_by(self, check: ExceptionInfo, program: OuterProgram) -> frozenset[int]:
        """The events that the script's failing check reads; none if the script's text cannot be read."""
        try:
            return read_by_check(program, self._script.read_text(), self._script.name, check)
        except (OSError, UnicodeDecodeError):
            return frozenset()


def _as_seen(program: OuterProgram, parting: Parting) -> AlsoSeen:
    """A wrong event other than the reduced one, for the report."""
    kind = _kind_of(program, parting)
    signature = Signature(kind, what=parting.sort, nonfinite=parting.sort in NONFINITE)
    return AlsoSeen(kind=kind, signature=signature.text, message=f"{told(program, parting)}: {parting.what}")


def _kind_of(program: OuterProgram, parting: Parting) -> Kind:
    """The kind of failure of a wrong event; a result that a backward overwrites is not a gradient."""
    is_gradient = program.events[parting.event].kind == BACKWARD and not parting.overwrites
    return Kind.WRONG_GRADIENT if is_gradient else Kind.WRONG_OUTPUT


def is_like(kind: Kind | None, event: str) -> bool:
    """Whether an event of this kind can be a failing call's: its result, or its backward and the uses of the gradients."""
    return (event == GRAPH) is (kind is not Kind.WRONG_GRADIENT)
