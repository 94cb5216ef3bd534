"""Blames a custom operator that fails ``torch.library.opcheck``, instead of a stage of the compiler.

Checks only operators that the reduced program still needs, on eager's own inputs of the window: a reduction may change
what an operator computes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.budget.patience import OPCHECK_SECONDS
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.program.model import Program
from minimizer.engine.user_script.bundle import Bundle, bundle
from minimizer.engine.user_script.own_operators import own_operators, registration
from minimizer.inside.questions import OperatorsRequest
from minimizer.report.culprit import Culprit, Source
from minimizer.vocabulary import Kind


@dataclass(frozen=True)
class Broken:
    """An operator (``lib.scale``) that fails ``opcheck``, and the complaint."""

    operator: str
    said: str

    @property
    def qualified(self) -> str:
        """Its qualified name, ``lib::scale``."""
        return self.operator.replace(".", "::", 1)

    def culprit(self, shown: Culprit, script: Path) -> Culprit:
        """The operator as the culprit, at the line of its registration if the script or a module next to it contains
        that.

        ``shown``: the culprit that the reduced program shows.
        """
        try:
            whole = bundle(script)
        except (OSError, SyntaxError, UnicodeDecodeError):  # the script may have removed or rewritten its own file
            whole = Bundle("", {})
        line = registration(whole.text, self.qualified)
        source = Source.of(whole.lines.get(line)) if line is not None else None
        what = f"{self.qualified}, which fails torch.library.opcheck ({self.said})"
        return shown.model_copy(update={"ops": [self.operator], "what": what, "source": source or shown.source})


def broken_operator(program: Program, window: Program, oracle: Oracle) -> Broken | None:
    """The first custom operator of a reduced program that fails ``opcheck``; None if none does."""
    names = own_operators(node.target for node in program.every_node)
    if not names:
        return None
    kinds = {accepted.kind for accepted in oracle.accepts}
    trial = oracle.request(window)
    request = OperatorsRequest(**vars(trial), operators=names, differentiates=Kind.WRONG_GRADIENT in kinds)
    (outcome,) = oracle.executor.judge([request], timeout=OPCHECK_SECONDS)
    return next((Broken(name, _line(outcome.values[name])) for name in names if name in outcome.values), None)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]
