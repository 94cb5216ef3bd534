"""Triage: does the script fail, and how? Runs it compiled and in eager, before anything is reduced.

The result is a `Case` (a failing call of a graph, held in the child), a `ScriptCase` (a failure without a graph), or a
`Settled` verdict, which gives the reason why there is nothing to reduce.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from minimizer.engine.budget.patience import REPEAT_SECONDS, SURVEYS
from minimizer.engine.child import protocol
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.oracle.signature import exception_signature, verdict_signature
from minimizer.engine.survey import coverage, dispute, in_eager
from minimizer.engine.survey.cases import (
    Case,
    ScriptCase,
    Settled,
    checks_layout,
    is_healthy,
    is_out_of_memory,
    is_own_check,
    line_of,
    lost_signature,
    missing_signature,
)
from minimizer.engine.survey.dispute import Ground
from minimizer.engine.survey.holding import Holding
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.toolchain import without_a_compiler
from minimizer.engine.survey.unended import Unended
from minimizer.engine.survey.verdicts import (
    WANTS_ARGUMENTS,
    before_a_frame,
    denied,
    disputed,
    hidden_failure,
    layout_unmade,
    not_runnable,
    nothing_compiled,
    opaque,
    overwritten,
    starved,
    too_large,
    too_little,
    uncompared,
    unexamined,
    unmade,
    unsteady,
    wants_arguments,
)
from minimizer.errors import BudgetExceeded, ChildFailed, GraphTooLarge, MemoryExceeded
from minimizer.inside.questions import HoldPlace
from minimizer.report.excused import excused
from minimizer.vocabulary import Kind, Reason, Status, counted

STARVED = (
    "a C++ compiler of Inductor had too little memory, which is no compile error; "
    "MINIMIZER_TRIAL_MEMORY_BYTES and MINIMIZER_JOB_MEMORY_BYTES say how much there may be"
)
CHECKED_BY_SCRIPT = "the script's own comparison"


class Triage:
    """Judges the runs of one script.

    ``repeat_seconds``: seconds after which a script that ends well is not run again. ``on_healthy``: called after the
    first healthy run, before the next one.
    """

    def __init__(
        self,
        surveys: Surveys,
        *,
        on_note: Callable[[str], None],
        on_healthy: Callable[[], None] = lambda: None,
        repeat_seconds: float = REPEAT_SECONDS,
    ) -> None:
        self.surveys, self._on_note, self._repeat_seconds = surveys, on_note, repeat_seconds
        self._on_healthy = on_healthy
        self._holding = Holding(surveys)
        self._unended = Unended(surveys, self._holding, self._raised)
        self._suspects: list[protocol.Seen] = []
        self._asked_with_gradients: set[tuple[int, int]] = set()
        """The (graph, call) of suspects whose programs include their gradients."""
        self._layouts: list[protocol.Seen] = []
        self.otherwise: Settled | None = None
        """The verdict if no suspect is confirmed; None until a run has ended well."""

    def run(self) -> Case | ScriptCase | Settled:
        """Run the script until it fails or gets a verdict; a healthy one several times.

        The first run fills the compiler's caches, and the second reads from them.
        """
        started, runs, earlier = time.monotonic(), 1, 0
        found = self._once(caches=True)
        if is_healthy(found):
            self._on_healthy()
        with suppress(BudgetExceeded, ChildFailed):  # keep the result of earlier runs
            while is_healthy(found) and runs < SURVEYS and self._is_worth_another(time.monotonic() - started):
                earlier = self.surveys.plan.runs
                found, runs = self._once(caches=runs == 1), runs + 1
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
            return found
        said = f"The script was run {runs} times." if is_healthy(found) else f"This showed in 1 of {runs} runs."
        settled = found.otherwise if isinstance(found, ScriptCase) else found
        settled = replace(settled, summary=f"{settled.summary} {said}", runs=runs)
        return ScriptCase(settled) if isinstance(found, ScriptCase) else settled

    def _is_worth_another(self, seconds: float) -> bool:
        """Whether to run a script that is healthy so far again, for flaky failures or the rest of the coverage plan."""
        is_early = seconds < self._repeat_seconds or not self.surveys.plan.is_complete
        return is_early and self.surveys.affords_another

    def _once(self, *, caches: bool = False) -> Case | ScriptCase | Settled:
        survey = self.surveys.next(caches=caches)
        if survey.held is not None and is_out_of_memory(error := survey.held.failure.exception):
            assert error is not None
            survey.close()
            return self._raised(protocol.Finished(checked=survey.held.failure.checked or protocol.Checked()), error)
        if survey.held is not None and (raised := survey.held.failure.exception) and raised.is_of_starved_compiler:
            survey.close()
            raise MemoryExceeded(STARVED)
        if survey.held is not None and (settled := self._without_a_compiler(survey.held.failure)) is not None:
            survey.close()
            return settled
        if survey.held is not None and survey.held.program is None:
            survey.close()
            return opaque(survey.held)
        if survey.held is not None:
            try:
                return self._holding.case(survey)
            except GraphTooLarge as too_many:
                survey.close()
                return too_large(survey.held, too_many)
        if survey.finished is not None:
            return self._finished(survey.finished)
        return self._unended.died(survey)

    def _finished(self, finished: protocol.Finished) -> Case | ScriptCase | Settled:
        for note in finished.notes:
            self._on_note(note)
        self._layouts = finished.layouts or self._layouts
        if finished.lost is not None and (case := self._lost(finished, finished.lost)) is not None:
            return case
        if finished.missing and (case := self._missing_error(finished.missing)) is not None:
            return case
        if finished.unsteady and finished.exception is not None and is_own_check(finished.exception):
            return unsteady(finished)  # the check may read what eager does not repeat
        if finished.exception is not None:
            return self._raised(finished, finished.exception)
        hidden = hidden_failure(finished)
        checked, extent = self.surveys.checked(finished), self.surveys.extent(finished)
        if finished.stopped and not checked.calls and (self.surveys.values or not checked.frames):
            return hidden or self._nothing_compared(checked)
        if checked.frames == 0:
            how = "The script ran to its end, but torch.compile compiled no frame of it."
            return hidden or nothing_compiled(how, checked, children=finished.children)
        if checked.calls == 0 and self.surveys.values:
            return hidden or Settled(
                Status.PARTIAL,
                Reason.NOT_VERIFIED,
                f"The script ran to its end, but no call of its {counted(checked.graphs, 'compiled graph')} could be compared "
                "with eager: nothing was checked but that it compiles and runs.",
                checked,
            )
        summary = coverage.healthy(checked, extent) if self.surveys.values else coverage.uncompared(checked, extent)
        healthy = hidden or Settled(Status.HEALTHY, None, summary, checked, notes=tuple(finished.notes))
        never = [each for each in finished.uncompared if each.graph not in self.surveys.plan.compared_graphs]
        if never and self.surveys.values and not hidden:
            healthy = uncompared(healthy, never)
        if finished.unsteady and not hidden:
            healthy = unsteady(finished)  # unless a suspect of another graph is a fault
        note = (
            "Values behind a jump differ, but every part of the graph is right on eager's inputs: rounding, amplified."
        )
        self._suspects = list(finished.suspects)
        legal = excused("behind_jump", count=len(self._suspects)) if self._suspects else None
        self.otherwise = noted = replace(healthy, notes=(*healthy.notes, note), excused=(legal,) if legal else ())
        return self.next_suspect() or (healthy if self.otherwise is noted else self.otherwise)

    def _nothing_compared(self, checked: protocol.Checked) -> Settled:
        """The verdict on a script that was stopped before any of its calls was compared."""
        done = (
            f"with {counted(checked.graphs, 'graph')} compiled and {counted(checked.calls_made, 'call')} of them made"
        )
        summary = self.surveys.share_is_over(
            done if checked.graphs else "before anything was compiled", "no call had been compared"
        )
        return Settled(Status.PARTIAL, Reason.BUDGET, summary, checked)

    def _lost(self, finished: protocol.Finished, lost: protocol.Lost) -> Case | None:
        """The call that lost the CUDA context, held just before that in a new run; None if it cannot be held."""
        error = finished.exception
        held = self._holding.at(HoldPlace(lost.graph, lost.call))
        if held is None or error is None:
            return None
        case = self._holding.case(held, signature=lost_signature(lost, error))
        return replace(case, message=line_of(error), exception=error, checked=finished.checked)

    def held_at(self, case: Case) -> Case | None:
        """The call of a case, held again, just before compiled code makes it; None if it cannot be held."""
        held = self._holding.at(HoldPlace(case.graph, case.call)) if case.graph is not None else None
        return None if held is None else self._holding.case(held, signature=case.signature)

    def without(self, graphs: Sequence[int]) -> Case | ScriptCase | Settled:
        """The result of a run that does not compare calls of these graphs; later runs do not either."""
        self.surveys.pass_by(graphs)
        return self._once()

    def next_suspect(self) -> Case | None:
        """The next suspect, held: a call whose values behind a jump, or their gradients, differ; None if none is left.

        It is a fault only if a part of its graph is wrong on eager's own inputs. If its program covers the forward
        only, the gradients are held as a graph of their own.
        """
        while self._suspects:
            suspect = self._suspects.pop(0)
            if suspect.phase == "backward" and (suspect.graph, suspect.call) in self._asked_with_gradients:
                continue
            held = self._holding.at(HoldPlace(suspect.graph, suspect.call, suspect.phase))
            if held is not None:
                signature = verdict_signature(suspect.verdict)
                if suspect.phase == "backward":
                    signature = replace(signature, kind=Kind.WRONG_GRADIENT)
                case = self._holding.case(held, signature=signature)
                if case.program.grad:
                    self._asked_with_gradients.add((suspect.graph, suspect.call))
                return replace(case, otherwise=self.otherwise)
            self.leave_open()
        return None

    def by_layout(self, otherwise: Settled) -> Case | Settled:
        """The first call that differs in layout only, held; ``otherwise`` if there is none, or if that is a failure.

        It ranks below every other failure: called at the end, when nothing else was found. The coverage is that of the
        whole run of ``otherwise``, not that up to the call.
        """
        if not self._layouts or otherwise.kind is not None or otherwise.status not in (Status.HEALTHY, Status.PARTIAL):
            return otherwise
        if otherwise.status is Status.PARTIAL:  # keep the reason why not all was compared
            self._on_note(otherwise.summary)
        case = self._first_layout()
        if case is None:
            return layout_unmade(otherwise, "its graph could not be captured a second time.")
        return replace(case, checked=otherwise.checked) if case.is_layout else case

    def _first_layout(self) -> Case | None:
        first = self._layouts[0]
        self.surveys.aim_at(first.graph, first.call)
        survey = self._holding.to_reduce(self.surveys.run(replace(self.surveys.request, layout=True)))
        return self._holding.case(survey) if survey is not None else None

    def leave_open(self) -> None:
        """Record that a suspect could not be examined: if no other is confirmed, the script is not called healthy."""
        assert self.otherwise is not None
        self.otherwise = unexamined(self.otherwise)

    def _without_a_compiler(self, failure: protocol.Failure) -> Settled | None:
        return without_a_compiler(failure.exception, self.surveys.place, failure.checked or protocol.Checked())

    def _raised(self, finished: protocol.Finished, error: ExceptionInfo) -> Case | ScriptCase | Settled:
        doubt = dispute.ground(self.surveys.text, error, finished.checks)
        if finished.checked.frames and doubt is Ground.READING:
            return disputed(error, finished.checked)
        eager = in_eager.eager_runs(self.surveys)
        if finished.attempted:  # else the compiler is not to blame, however it is switched off
            eager = in_eager.by_stance(self.surveys, eager, error, self._on_note)
        if eager[-1].finished is None:
            return not_runnable(eager[-1], "without the compiler")
        failed = [run.finished for run in eager if run.finished and run.finished.exception]
        raised = [run.exception for run in failed if run.exception]
        if raised:
            if advice := denied(raised[0], self.surveys.place):
                why = f"The sandbox keeps the script from what it needs ({line_of(raised[0])}): {advice}"
                return Settled(Status.FAILED, Reason.SANDBOX_DENIED, why, finished.checked, exception=raised[0])
            always = len(raised) == len(eager)
            how = "" if always else f", in {len(raised)} of {counted(len(eager), 'run')}"
            is_same = raised[0].root_type == error.root_type
            blame = (
                "torch.compile is not to blame." if is_same else f"with torch.compile it ends with {line_of(error)}."
            )
            at = f" ({source[0]}:{source[1]})" if (source := raised[0].source) is not None else ""
            last = f"; the last line that it printed is: {failed[0].printed}" if failed[0].printed else ""
            end = f"{line_of(raised[0])}{at}{last}".rstrip(".")
            return Settled(
                Status.FAILED,
                Reason.FAILS_IN_EAGER if always else Reason.NONDETERMINISTIC,
                f"The script also fails without torch.compile{how}: {end}. {WANTS_ARGUMENTS if wants_arguments(raised[0]) else 'Fix that first'}; {blame}",
                finished.checked,
                exception=raised[0],
            )
        if not finished.attempted:
            how = before_a_frame(line_of(error), error)
            return nothing_compiled(how, finished.checked, children=finished.children, error=error)
        if is_out_of_memory(error):
            return starved(error, finished.checked)
        if (settled := without_a_compiler(error, self.surveys.place, finished.checked)) is not None:
            return settled
        if is_own_check(error):
            is_layout = bool(finished.layouts) and checks_layout(error)
            if is_layout and (case := self._first_layout()) is not None:
                return replace(case, is_asserted=True)
            is_of_values = doubt is Ground.VALUES or dispute.is_of_values(error, finished.checks)
            held = self._own_check(finished.checks) if is_of_values else None
            if held is not None:
                return held
            if finished.overwritten:
                return ScriptCase(overwritten(finished.overwritten, error, finished.checked))
            if finished.checked.calls and doubt is Ground.VALUES:
                in_doubt = Settled(
                    Status.PARTIAL,
                    Reason.DISPUTED,
                    f"The script's own check fails ({line_of(error)}), but every compiled call that was compared agrees with eager within the "
                    "tolerance of its dtype: only a wider tolerance, or the random stream, is in dispute.",
                    finished.checked,
                    kind=Kind.WRONG_OUTPUT,
                    exception=error,
                    excused=(excused("check_of_values", line_of(error)),),
                )
                return ScriptCase(in_doubt)
        is_assertion = error.root_type == "AssertionError" and is_own_check(error)
        kind = Kind.WRONG_OUTPUT if is_assertion else Kind.RUNTIME_ERROR
        return ScriptCase(unmade(f"({line_of(error)})", kind, finished.checked, error))

    def _own_check(self, checks: list[dict[str, Any]]) -> Case | None:
        """The call that fails by the script's own tolerance, held, where our rule sees legal rounding; else None."""
        tolerance = {key: value for key, value in (checks[-1] if checks else {}).items() if key in ("rtol", "atol")}
        for passed in range(SURVEYS):
            survey = self.surveys.run(replace(self.surveys.request, tolerance=tolerance))
            if (held := self._holding.to_reduce(survey)) is not None:
                self._on_note(f"The failure is judged by {CHECKED_BY_SCRIPT}: {tolerance or 'the default tolerance'}.")
                return replace(self._holding.case(held, tolerance=tolerance), runs=1 + passed)
            if survey.finished is None or survey.finished.exception is not None:
                break
        return None

    def _missing_error(self, missing: Sequence[protocol.Missing]) -> Case | None:
        """The first call that raises only in eager, held, if the script in eager raises that error too.

        If it does not, eager fails only on our copies of the inputs, such as a leaf where the script has none.
        """
        eager = self.surveys.eager().finished
        raised = [exception_signature(Kind.MISSING_ERROR, error) for error in eager.raised] if eager else []
        for call in missing:
            signature = missing_signature(call)
            if any(signature.matches(other) for other in raised):
                held = self._holding.at(HoldPlace(call.graph, call.call))
                if held is not None:
                    case = self._holding.case(held, signature=signature)
                    return replace(case, message=line_of(call.exception), exception=call.exception)
            self._on_note(
                f"Call {call.call} of graph {call.graph} was not compared: eager cannot run it on copies of its inputs "
                f"({line_of(call.exception)})."
            )
        return None
