"""Holds failing calls of compiled graphs in the child, and makes cases of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from minimizer.engine.child import protocol
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.child.survey import Survey
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.survey.cases import Case, held_signature, message_of
from minimizer.engine.survey.prelude import with_prelude
from minimizer.engine.survey.runs import Surveys
from minimizer.inside.questions import HoldPlace


class Holding:
    """Holds calls of a script's graphs, by a further run if no run holds them yet."""

    def __init__(self, surveys: Surveys) -> None:
        self._surveys = surveys

    def at(self, place: HoldPlace) -> Survey | None:
        """A run held at a place; None if it is not reached, or has no program."""
        return self.to_reduce(self._surveys.run(replace(self._surveys.request, hold=place)))

    @staticmethod
    def to_reduce(survey: Survey) -> Survey | None:
        """The run, if it is held and has a program; else None, and the run is closed."""
        if survey.held is None:
            return None
        if survey.held.program is None:
            survey.close()
            return None
        return survey

    def case(self, survey: Survey, signature: Signature | None = None, tolerance: dict[str, Any] | None = None) -> Case:
        """The held call as a case.

        Args:
            survey: a held run with a program.
            signature: that of its failure; by default that of the held failure.
            tolerance: the script's own, if only that calls it a failure.
        """
        assert survey.held is not None and survey.held.program is not None
        failure = survey.held.failure
        return Case(
            survey=survey,
            program=with_prelude(
                parse_program(survey.held.program), self._surveys.script, survey.held.program.get("opaque_settings", ())
            ),
            signature=signature or held_signature(failure),
            message=message_of(failure.exception, failure.verdict),
            exception=failure.exception,
            verdict=failure.verdict,
            tolerance=tolerance,
            checked=failure.checked or protocol.Checked(),
            graph=failure.graph,
            instance=failure.instance,
            call=failure.call,
        )
