"""Judges runs that did not end: the script died, or the compiler did not return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from minimizer.engine.child import protocol, stacks
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.child.watchdog import Silence
from minimizer.engine.oracle.signature import crash_signature
from minimizer.engine.survey.cases import Case, ScriptCase, Settled, checked_of, hang_signature, place_of, signal_name
from minimizer.engine.survey.holding import Holding
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.verdicts import before_a_frame, not_runnable, nothing_compiled, unmade
from minimizer.engine.trouble import KILLED, OWN_CODE_RAISED
from minimizer.vocabulary import Kind, Reason, Status

Raised = Callable[[protocol.Finished, ExceptionInfo], Case | ScriptCase | Settled]
"""Judges a run that ended by an exception."""


class Unended:
    """Judges runs that died or fell silent. ``raised``: judges a run that raises once its values are not compared."""

    def __init__(self, surveys: Surveys, holding: Holding, raised: Raised) -> None:
        self._surveys, self._holding, self._raised = surveys, holding, raised

    def died(self, survey: Survey) -> Case | ScriptCase | Settled:
        """The result for a run that ended without a message."""
        if survey.silence is not None:
            return self.silent(survey, survey.silence)
        if survey.timed_out:
            return not_runnable(survey, "with the compiler")
        eager = self._surveys.eager()
        if eager.finished is None:
            return not_runnable(eager, "with and without the compiler")
        if survey.rule in (KILLED, OWN_CODE_RAISED):
            return not_runnable(survey, "with the compiler")
        if not survey.phase.attempted and eager.finished.exception is None:
            end = f"it dies by {signal_name(survey.signal)}" if survey.signal else f"it ends with status {survey.exit}"
            return nothing_compiled(before_a_frame(end))
        if survey.signal is None:
            return ScriptCase(unmade(f"(it ends by itself with status {survey.exit})", Kind.CRASH))
        dump = self._readable(survey.stacks or survey.log)
        if survey.phase.doing == "compare" and (found := self._uncompared(survey, survey.signal)) is not None:
            return found
        place = place_of(survey.phase)
        held = self._holding.at(place) if place is not None else None
        signature = crash_signature(survey.signal, survey.log)
        if held is None:
            by_signal = unmade(f"(it dies by {signal_name(survey.signal)})", Kind.CRASH, stack=dump)
            return ScriptCase(by_signal if place is not None else not_runnable(survey, "with the compiler"))
        words = stacks.last_words(survey.log)
        message = f"the process died by {signal_name(survey.signal)}{f': {words}' if words else ''}"
        return replace(self._holding.case(held, signature=signature), message=message, dump=dump)

    def _uncompared(self, survey: Survey, signal: int) -> Case | ScriptCase | Settled | None:
        """The result of an uncompared run of a script that died during a comparison; None if it dies again."""
        alone = self._surveys.run(replace(self._surveys.request, values=False))
        if self._holding.to_reduce(alone) is not None:
            return self._holding.case(alone)
        if alone.finished is None:
            return None
        if alone.finished.exception is not None:
            return self._raised(alone.finished, alone.finished.exception)
        return Settled(
            Status.PARTIAL,
            Reason.NOT_VERIFIED,
            f"The compiled script runs to its end, but died by {signal_name(signal)} while it was compared with eager: "
            "its values could not be checked. That is no failure of the script.",
            checked_of(survey.phase),
        )

    def silent(self, survey: Survey, silence: Silence) -> Case | ScriptCase | Settled:
        """The result for a run that fell silent: a hang, a slow compilation, or the end of its share of the budget.

        For a hang without a graph, the script must run in eager; with one, eager has run it already.
        """
        if silence.out_of_time:
            summary = self._surveys.out_of_time(survey, silence)
            return Settled(Status.PARTIAL, Reason.BUDGET, summary, checked_of(survey.phase))
        place = place_of(survey.phase)
        message = f"had not come back after {silence.seconds:.0f} seconds"
        if not silence.hangs:
            return Settled(
                Status.PARTIAL,
                Reason.NOT_VERIFIED,
                f"Slow, but no hang: torch.compile {message}, and was seen at work in different places. A larger --hang-after "
                "lets it go on.",
                checked_of(survey.phase),
            )
        when = "all the while" if silence.stayed is None else f"for the last {silence.stayed:.0f} of them"
        message = f"torch.compile {message}, and is in {silence.text} {when}"
        if place is not None:
            held = self._holding.at(place)
            if held is not None:
                return replace(
                    self._holding.case(held, signature=hang_signature(silence)),
                    message=message,
                    dump=self._readable(silence.dump),
                )
        else:
            eager = self._surveys.eager()
            if eager.finished is None:
                return not_runnable(eager, "with and without the compiler")
            if not survey.phase.attempted and eager.finished.exception is None:
                return nothing_compiled(before_a_frame(message))
        summary, dump = f"Hang: {message}.", self._readable(silence.dump)
        checked = checked_of(survey.phase)
        return ScriptCase(
            Settled(Status.PARTIAL, Reason.NOT_VERIFIED, summary, checked, kind=Kind.HANG, traceback=dump)
        )

    def _readable(self, dump: str) -> str:
        return stacks.readable(dump, str(self._surveys.script.parent))
