"""Holds failing calls of compiled graphs in the child, suspects one after the other, and makes cases of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from minimizer.engine.budget.patience import SURVEYS
from minimizer.engine.child import protocol
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.child.survey import Survey
from minimizer.engine.oracle.signature import Signature, verdict_signature
from minimizer.engine.survey.cases import Case, Settled, held_signature, message_of
from minimizer.engine.survey.prelude import with_prelude
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.survey.verdicts import unexamined
from minimizer.inside.questions import HoldPlace, SurveyRequest
from minimizer.report.excused import excused
from minimizer.vocabulary import Kind


class Holding:
    """Holds calls of a script's graphs, with a further run if none holds them yet.

    ``note`` sends a note to the job's owner.
    """

    def __init__(self, surveys: Surveys, note: Callable[[str], None]) -> None:
        self.surveys, self.note = surveys, note

    def case_at(self, place: HoldPlace | None, signature: Signature) -> Case | None:
        """The call at a place as a case; None without a place, if the run does not reach it, or if it has no program."""
        return self._of_run(replace(self.surveys.request, hold=place), signature) if place is not None else None

    def by_layout(self, seen: protocol.Seen) -> Case | None:
        """The first failing call of a run in which another memory layout at this call counts as a failure."""
        self.surveys.aim_at(seen.graph, seen.call)
        return self._of_run(replace(self.surveys.request, layout=True))

    def by_identity(self, merged: protocol.Merged) -> Case | None:
        """The call that returned one object for several outputs, held in a run in which that counts as a failure.

        Else None.
        """
        self.surveys.aim_at(merged.graph, merged.call)
        case = self._of_run(replace(self.surveys.request, identity=True))
        return case and replace(case, identity=True)

    def _of_run(self, request: SurveyRequest, signature: Signature | None = None) -> Case | None:
        held = self.to_reduce(self.surveys.run(request))
        return self.case(held, signature) if held is not None else None

    def by_tolerance(self, checks: Sequence[Mapping[str, float]]) -> Case | None:
        """The call that fails by the tolerance of the script's last check, while our rule sees legal rounding."""
        tolerance = {key: value for key, value in (checks[-1] if checks else {}).items() if key in ("rtol", "atol")}
        for passed in range(SURVEYS):
            survey = self.surveys.run(replace(self.surveys.request, tolerance=tolerance))
            if (held := self.to_reduce(survey)) is not None:
                self.note(
                    f"The failure is judged by the script's own comparison: {tolerance or 'the default tolerance'}."
                )
                return replace(self.case(held), tolerance=tolerance, runs=1 + passed)
            if survey.finished is None or survey.finished.exception is not None:
                break
        return None

    @staticmethod
    def to_reduce(survey: Survey) -> Survey | None:
        """The run, if it is held and has a program; else None, after closing the run."""
        if survey.held is None:
            return None
        if survey.held.program is None:
            survey.close()
            return None
        return survey

    def case(self, survey: Survey, signature: Signature | None = None) -> Case:
        """The case of a held run's call, which has a program; by default with the signature of its failure."""
        assert survey.held is not None and survey.held.program is not None
        failure = survey.held.failure
        return Case(
            survey=survey,
            program=with_prelude(
                parse_program(survey.held.program),
                self.surveys.script,
                survey.held.program.get("opaque_settings", ()),
                has_inline_backend=bool(survey.held.program.get("has_inline_backend")),
            ),
            signature=signature or held_signature(failure),
            message=message_of(failure.exception, failure.verdict),
            exception=failure.exception,
            verdict=failure.verdict,
            checked=failure.checked or protocol.Checked(),
            graph=failure.graph,
            instance=failure.instance,
            call=failure.call,
        )


class Suspects:
    """The suspects of a run: calls whose values behind a jump, or their gradients, differ. They are held in turn.

    A suspect is a fault only if a part of its graph is wrong on eager's own inputs.
    """

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._left: list[protocol.Seen] = []
        self._asked_with_gradients: set[tuple[int, int]] = set()
        """The (graph, call) of suspects whose programs include their gradients."""
        self.otherwise: Settled | None = None
        """The verdict if no suspect is confirmed; None until a run has shown a suspect."""

    def hold_first(self, seen: Sequence[protocol.Seen], healthy: Settled) -> Case | Settled:
        """The first suspect that can be held; else ``healthy``, with the excuse that all of them are rounding."""
        self._left = list(seen)
        note = (
            "Values behind a jump differ, but every part of the graph is right on eager's inputs: rounding, amplified."
        )
        legal = excused("behind_jump", count=len(seen))
        self.otherwise = replace(healthy, notes=(*healthy.notes, note), excused=(legal,))
        return self.hold_next() or self.otherwise

    def hold_next(self) -> Case | None:
        """The next suspect, held; None if none is left.

        If its program covers the forward only, the gradients are held as a separate graph.
        """
        while self._left:
            suspect = self._left.pop(0)
            if suspect.phase == "backward" and (suspect.graph, suspect.call) in self._asked_with_gradients:
                continue
            signature = verdict_signature(suspect.verdict)
            if suspect.phase == "backward":
                signature = replace(signature, kind=Kind.WRONG_GRADIENT)
            case = self._holding.case_at(HoldPlace(suspect.graph, suspect.call, suspect.phase), signature)
            if case is not None:
                if case.program.grad:
                    self._asked_with_gradients.add((suspect.graph, suspect.call))
                return replace(case, otherwise=self.otherwise)
            self.leave_open()
        return None

    def leave_open(self) -> None:
        """Record that a suspect could not be examined: without a confirmed one, the script is not called healthy."""
        assert self.otherwise is not None
        self.otherwise = unexamined(self.otherwise)
