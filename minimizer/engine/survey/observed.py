"""The observations of a run, by its final state: held at a call, ended, raised, or unended.

Facts and verdicts that need a further run are cached properties, computed when the first rule (`verdict_rules`) needs
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn

from minimizer.engine.child import protocol, stacks
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.oracle.signature import crash_signature, exception_signature
from minimizer.engine.survey import cases, coverage, dispute, in_eager, verdicts
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, is_own_check, line_of, signal_name
from minimizer.engine.survey.dispute import Ground
from minimizer.engine.survey.holding import Holding, Suspects
from minimizer.engine.survey.toolchain import without_a_compiler
from minimizer.errors import GraphTooLarge, MemoryExceeded
from minimizer.inside.questions import HoldPlace
from minimizer.vocabulary import Kind, Reason, Status, counted

MOST_HELD = 3
"""Most calls with one object for two outputs to try, since each costs a run of the script."""


@dataclass(frozen=True)
class RaisedRun:
    """A run that ended with an exception."""

    finished: protocol.Finished
    holding: Holding

    @property
    def error(self) -> ExceptionInfo:
        assert self.finished.exception is not None
        return self.finished.exception

    @property
    def checked(self) -> protocol.Checked:
        return self.finished.checked

    @cached_property
    def doubt(self) -> Ground:
        """The ground for disputing the failed check."""
        return dispute.ground(self.holding.surveys.text, self.error, self.finished.checks)

    @cached_property
    def eager(self) -> list[Survey]:
        """The eager runs to compare with; the last one may have died."""
        return in_eager.runs_to_go_by(self.holding.surveys, self.finished, self.holding.note)

    @cached_property
    def failed(self) -> list[tuple[ExceptionInfo, str]]:
        """The exceptions of the eager runs, each with the last line that the script printed."""
        return [(end.exception, end.printed) for run in self.eager if (end := run.finished) and end.exception]

    @cached_property
    def denial(self) -> str:
        """Advice on what the sandbox denies the script in eager; empty if nothing."""
        return verdicts.denied(self.failed[0][0], self.holding.surveys.place) if self.failed else ""

    def checks_seen_layout(self) -> bool:
        """Whether a check of the script's own concerns memory layout, and a call was seen to differ in it."""
        return is_own_check(self.error) and bool(self.finished.layouts) and cases.checks_layout(self.error)

    def checks_values(self) -> bool:
        """Whether a check of the script's own compares values, whether disputed or beyond any tolerance."""
        return self.doubt is Ground.VALUES or dispute.is_of_values(self.error, self.finished.checks)

    def fails_in_eager(self) -> Settled:
        return verdicts.fails_in_eager(self.error, self.failed, len(self.eager), self.checked)

    def without_a_compiler(self) -> Settled:
        return without_a_compiler(self.error, self.holding.surveys.place, self.checked)

    def by_layout(self) -> Case | None:
        case = self.holding.by_layout(self.finished.layouts[0])
        return case and replace(case, is_asserted=True)

    def unmade(self) -> ScriptCase:
        is_assertion = self.error.root_type == "AssertionError" and is_own_check(self.error)
        kind = Kind.WRONG_OUTPUT if is_assertion else Kind.RUNTIME_ERROR
        return ScriptCase(verdicts.unmade(line_of(self.error), kind, self.checked, self.error))


@dataclass(frozen=True)
class HeldRun:
    """A run that is held at its failing call."""

    survey: Survey
    held: protocol.Held
    holding: Holding

    @property
    def error(self) -> ExceptionInfo | None:
        return self.held.failure.exception

    @property
    def raised(self) -> RaisedRun:
        """The held call's exception as that of a run that it ended."""
        checked = self.held.failure.checked or protocol.Checked()
        return RaisedRun(protocol.Finished(exception=self.error, checked=checked), self.holding)

    @cached_property
    def case(self) -> Case | GraphTooLarge:
        try:
            return self.holding.case(self.survey)
        except GraphTooLarge as error:
            return error

    def starved(self) -> NoReturn:
        raise MemoryExceeded(
            "a C++ compiler of Inductor had too little memory, which is no compile error; "
            "MINIMIZER_TRIAL_MEMORY_BYTES and MINIMIZER_JOB_MEMORY_BYTES say how much there may be"
        )


@dataclass(frozen=True)
class EndedRun:
    """A run without a held call that ended by itself, by an exception, or was stopped after enough comparisons."""

    finished: protocol.Finished
    holding: Holding
    suspects: Suspects

    @cached_property
    def checked(self) -> protocol.Checked:
        """The coverage of all runs up to this one."""
        return self.holding.surveys.checked(self.finished)

    @property
    def hidden(self) -> Sequence[str]:
        """Errors of Dynamo that the script suppresses."""
        return self.finished.health.failed if self.finished.health is not None else []

    @property
    def never_compared(self) -> Sequence[protocol.Uncompared]:
        """The graphs without a compared call in any run, if calls are compared."""
        surveys, compared = self.holding.surveys, self.holding.surveys.plan.compared_graphs
        return [each for each in self.finished.uncompared if each.graph not in compared] if surveys.values else []

    def saw_nothing(self) -> bool:
        """Whether nothing was compiled, or nothing was compared although values are to be."""
        return self.checked.frames == 0 or (self.holding.surveys.values and self.checked.calls == 0)

    def fails_unsteadily(self) -> bool:
        error = self.finished.exception
        return bool(self.finished.unsteady) and error is not None and is_own_check(error)

    def lost(self) -> Case | None:
        """The call that lost the CUDA context, held just before it in a new run."""
        lost, error = self.finished.lost, self.finished.exception
        if lost is None or error is None:
            return None
        case = self.holding.case_at(HoldPlace(lost.graph, lost.call), cases.lost_signature(lost, error))
        return case and replace(case, message=line_of(error), exception=error, checked=self.finished.checked)

    def missing_error(self) -> Case | None:
        """The first call that raises only in eager, held, if the script in eager raises that error too.

        If not, eager fails only on our copies of the inputs, such as a leaf where the script has none.
        """
        eager = self.holding.surveys.eager().finished
        raised = [exception_signature(Kind.MISSING_ERROR, error) for error in eager.raised] if eager else []
        for call in self.finished.missing:
            signature = cases.missing_signature(call)
            if any(signature.matches(other) for other in raised):
                case = self.holding.case_at(HoldPlace(call.graph, call.call), signature)
                if case is not None:
                    return replace(case, message=line_of(call.exception), exception=call.exception)
            self.holding.note(
                f"Call {call.call} of graph {call.graph} was not compared: eager cannot run it on copies of its inputs "
                f"({line_of(call.exception)})."
            )
        return None

    def merged(self) -> Case | None:
        """The first call that can be held of those that returned one object for two outputs, one of which the script
        then changed.
        """
        for merged in self.finished.merged[:MOST_HELD]:
            case = self.holding.by_identity(merged)
            if case is not None:
                what = f"In call {merged.call} of graph {merged.graph}, {merged.what}"
                self.holding.note(f"{what}. In eager the other output does not change with it.")
                return replace(case, checked=self.checked)
        return None

    def cut_short(self) -> Settled:
        graphs, calls = counted(self.checked.graphs, "graph"), counted(self.checked.calls_made, "call")
        compiled = f"with {graphs} compiled and {calls} of them made"
        done = compiled if self.checked.graphs else "before anything was compiled"
        summary = self.holding.surveys.share_is_over(done, "no call had been compared")
        return Settled(Status.PARTIAL, Reason.BUDGET, summary, self.checked)

    def healthy(self) -> Settled:
        in_words = coverage.healthy if self.holding.surveys.values else coverage.uncompared
        summary = in_words(self.checked, self.holding.surveys.extent(self.finished))
        return Settled(Status.HEALTHY, None, summary, self.checked, notes=tuple(self.finished.notes))


@dataclass(frozen=True)
class UnendedRun:
    """A run that died, or was ended by its watchdog or its limit."""

    survey: Survey
    holding: Holding

    @cached_property
    def eager(self) -> Survey:
        return self.holding.surveys.eager()

    @property
    def place(self) -> HoldPlace | None:
        """The graph and call that it was in."""
        return cases.place_of(self.survey.phase)

    @property
    def end(self) -> str:
        """How it ended, in words."""
        if self.survey.silence is not None:
            return verdicts.standing_still(self.survey.silence)
        signal = self.survey.signal
        return f"it dies by {signal_name(signal)}" if signal else f"it ends with status {self.survey.exit}"

    @property
    def dump(self) -> str:
        """The stacks of all threads, as far as known, in readable form."""
        dump = self.survey.silence.dump if self.survey.silence is not None else self.survey.stacks or self.survey.log
        return stacks.readable(dump, str(self.holding.surveys.script.parent))

    def hangs_in_graph(self) -> bool:
        return self.survey.silence is not None and self.place is not None

    def never_asked_compiler(self) -> bool:
        """Whether Dynamo got no frame, while the script ends well in eager."""
        eager = self.eager.finished
        return not self.survey.phase.attempted and eager is not None and eager.exception is None

    def out_of_time(self) -> Settled:
        assert self.survey.silence is not None
        summary = self.holding.surveys.out_of_time(self.survey, self.survey.silence)
        return Settled(Status.PARTIAL, Reason.BUDGET, summary, cases.checked_of(self.survey.phase))

    def of_ranks(self) -> Settled:
        """The verdict for a watched rank that waits in a collective for ranks that make no progress."""
        assert self.survey.silence is not None
        own, eager = self.holding.surveys.plan.rank, self.eager
        if eager.finished is not None:
            how = f"{self.survey.silence.of_ranks(own)}. In eager all ranks come to their end"
            return verdicts.hang(self.survey, how, self.dump)
        if eager.silence is not None and eager.silence.is_among_ranks:
            return verdicts.stuck_ranks(eager.silence.of_ranks(own))
        return verdicts.not_runnable(eager, "with and without the compiler")

    def held_before(self) -> Case | None:
        """The call in which it died or hangs, held just before it in a new run."""
        message = self.end
        if self.survey.silence is not None:
            signature = cases.hang_signature(self.survey.silence)
        else:
            assert self.survey.signal is not None
            words, signature = stacks.last_words(self.survey.log), crash_signature(self.survey.signal, self.survey.log)
            message = f"the process died by {signal_name(self.survey.signal)}{f': {words}' if words else ''}"
        case = self.holding.case_at(self.place, signature)
        return case and replace(case, message=message, dump=self.dump)

    def hang(self) -> ScriptCase:
        return ScriptCase(verdicts.hang(self.survey, self.end, self.dump))
