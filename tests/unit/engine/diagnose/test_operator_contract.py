"""An operator of the script's own that breaks its promises is the culprit, where the failure needs it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from toy_programs import chain

from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.engine.diagnose.operator_contract import Broken, broken_operator
from minimizer.engine.oracle.oracle import Oracle
from minimizer.engine.oracle.signature import Signature
from minimizer.engine.program.model import Program
from minimizer.inside.questions import OperatorsRequest, TrialRequest
from minimizer.report.culprit import Culprit, Source
from minimizer.vocabulary import Kind

WINDOW = chain(["torch.relu", "torch.ops.lib.scale.default", "torch.ops.aten.sin.default", "torch.ops.lib.shift"])
SMALLEST = chain(["torch.ops.lib.scale.default"])


class Asked:
    """An oracle whose child answers ``opcheck`` with one outcome; keeps what it was asked."""

    def __init__(self, outcome: Outcome, kind: Kind = Kind.WRONG_OUTPUT) -> None:
        self.requests: list[OperatorsRequest] = []
        self.accepts = (Signature(kind),)
        self.executor = SimpleNamespace(judge=self._judge)
        self._outcome = outcome

    def request(self, program: Program) -> TrialRequest:
        return TrialRequest(setup="", source=repr(program), name="f", inputs=[])

    def _judge(self, requests: Sequence[OperatorsRequest], *, timeout: float) -> list[Outcome]:
        self.requests += requests
        return [self._outcome]


def ask(outcome: Outcome, program: Program = SMALLEST, **more: Any) -> tuple[Broken | None, list[OperatorsRequest]]:
    asked = Asked(outcome, **more)
    return broken_operator(program, WINDOW, cast(Oracle, asked)), asked.requests


def test_the_window_is_asked_for_the_operators_of_the_smallest_program() -> None:
    broken, requests = ask(Outcome(ending=Ending.SAME, values={"lib.scale": "test_schema: x\n  was mutated"}))
    assert broken == Broken("lib.scale", "test_schema: x was mutated")
    (request,) = requests
    assert (request.source, request.operators, request.differentiates) == (repr(WINDOW), ["lib.scale"], False)


def test_without_such_operators_nothing_is_asked() -> None:
    assert ask(Outcome(ending=Ending.SAME), chain(["torch.relu"])) == (None, [])


def test_gradients_are_asked_for_where_they_are_wrong() -> None:
    _, requests = ask(Outcome(ending=Ending.SAME), kind=Kind.WRONG_GRADIENT)
    assert requests[0].differentiates is True


@pytest.mark.parametrize("outcome", ["same", "timeout", "crash", "lost"])
def test_no_answer_is_no_say(outcome: Any) -> None:
    assert ask(Outcome(ending=outcome))[0] is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('import torch\nscale = torch.library.custom_op("lib::scale", mutates_args=())(f)', ("train.py", 2)),
        ("import ops", ("ops.py", 4)),
        ("import lib", ("a.py", 9)),
        ("no Python (", ("a.py", 9)),
    ],
    ids=["in the script", "in a module beside it", "in a library", "nobody knows"],
)
def test_the_culprit_stands_where_it_is_registered(text: str, place: tuple[str, int], tmp_path: Path) -> None:
    (script := tmp_path / "train.py").write_text(text)
    (tmp_path / "ops.py").write_text(
        'import torch\n\n\n@torch.library.custom_op("lib::scale", mutates_args=())\ndef f(x): ...'
    )
    shown = Culprit(module="net", nodes=["v1"], ops=["aten.add", "lib.scale"], source=Source(file="a.py", line=9))
    found = Broken("lib.scale", "test_schema: it was mutated").culprit(shown, script)
    assert (found.ops, found.module) == (["lib.scale"], "net")
    assert found.source is not None and (found.source.file, found.source.line) == place
    assert found.what == "lib::scale, which fails torch.library.opcheck (test_schema: it was mutated)"
