"""Operators of the user's own that break what ``torch.library.opcheck`` asks of them: then they are to blame, and no stage of the compiler.

Asked only once a failure was reduced, of the operators that its smallest program still needs, on eager's own inputs: those of
the window, since a reduction may change what an operator does.
"""

from __future__ import annotations

from dataclasses import dataclass

from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.user_script.own_operators import own_operators
from minimizer.engine.user_script.registrations import registration
from minimizer.report.model import Culprit, Source
from minimizer.vocabulary import Kind

CHECK_SECONDS = 60.0
"""A check that takes longer has no say."""


@dataclass(frozen=True)
class Broken:
    """An operator (``lib.scale``), and what ``opcheck`` says of it."""

    operator: str
    said: str

    @property
    def qualified(self) -> str:
        """``lib::scale``."""
        return self.operator.replace(".", "::", 1)

    def culprit(self, shown: Culprit, *, script: str, text: str) -> Culprit:
        """The operator as the culprit, at the line of its registration where the script has it.

        Args:
            shown: the culprit that the reduced program shows.
            script: the name of the user's script.
            text: its source.
        """
        found = registration(text, self.qualified)
        source = Source(file=script, line=found[0], code=found[1]) if found is not None else shown.source
        what = f"{self.qualified}, which fails torch.library.opcheck ({self.said})"
        return shown.model_copy(update={"ops": [self.operator], "what": what, "source": source})


def broken_operator(program: Program, window: Program, oracle: Oracle) -> Broken | None:
    """The first operator of a reduced program that breaks its promises; None if none does, or ``opcheck`` has no say."""
    names = own_operators(node.target for node in program.every_node)
    if not names:
        return None
    kinds = {accepted.kind for accepted in oracle.accepts}
    request = {**oracle.request(window), "operators": names, "differentiates": Kind.WRONG_GRADIENT in kinds}
    (outcome,) = oracle.executor.judge([request], timeout=CHECK_SECONDS, op="check_operators")
    return next((Broken(name, _line(outcome.values[name])) for name in names if name in outcome.values), None)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
