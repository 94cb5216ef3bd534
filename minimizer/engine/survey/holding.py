"""Holds failing calls of compiled graphs in the child, and makes cases of them."""

from __future__ import annotations

import re
import tokenize
from dataclasses import replace
from typing import Any

from minimizer.engine.child import protocol
from minimizer.engine.child.sent_program import parse_program
from minimizer.engine.child.survey import Survey
from minimizer.engine.oracle.oracle import Signature
from minimizer.engine.program.model import Program
from minimizer.engine.survey.cases import Case, held_signature, message_of
from minimizer.engine.survey.own_kernels import with_own_kernels
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.user_script.slice import namespaces_of, prelude


class Holding:
    """Holds calls of a script's graphs, by a further run if no run holds them yet."""

    def __init__(self, surveys: Surveys) -> None:
        self._surveys = surveys

    def at(self, graph: int | None, call: int | None) -> Survey | None:
        """A run held just before compiled code makes this call; None if it is not reached, or has no program."""
        return self.to_reduce(self._surveys.run(hold={"graph": graph, "call": call}))

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
            program=self._with_prelude(parse_program(survey.held.program), survey.held.program),
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

    def _with_prelude(self, program: Program, raw: dict[str, Any]) -> Program:
        """Add the statements of the script that the graph depends on and that no literal expresses."""
        settings = [str(name) for name in raw.get("opaque_settings", ())]
        try:
            with tokenize.open(self._surveys.script) as file:  # knows the encoding that the script declares
                text = file.read()
            chunks = prelude(
                text,
                settings=settings,
                namespaces=namespaces_of(node.target for node in program.every_node),
                names=[
                    *(name for _, value in program.compile_kwargs for name in re.findall(r"[^\W\d]\w*", value)),
                    *program.kernels,
                ],
            )
        except (OSError, SyntaxError, UnicodeDecodeError):  # the script may have removed or rewritten its own file
            return program
        return with_own_kernels(replace(program, setup=(*chunks, *program.setup)), self._surveys.script.parent)
