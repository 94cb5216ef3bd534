"""The culprit of a reduced script: its operator and module, or its construct."""

from __future__ import annotations

import ast

import pytest

from minimizer.engine.child.outcome import Ending, Outcome, PlacedOperator
from minimizer.engine.levels.script_culprit import Observed, culprit_of, together
from minimizer.report.culprit import Culprit, Source


def outcome(*calls: tuple[str, int, str]) -> Outcome:
    placed = [PlacedOperator(op=op, line=line, module=module) for op, line, module in calls]
    return Outcome(ending=Ending.SAME, ops=list(dict.fromkeys(call.op for call in placed)), placed=placed)


BEFORE = outcome(
    ("aten.relu", 5, "stem"), ("aten.clamp", 7, "gate"), ("aten.view", 9, ""), ("aten.clamp", 12, "post"), ("aten.sum", 12, "post")
)  # fmt: skip


def found(text: str, after: Outcome, line: int | None = None, line_after: int | None = None, said: str = "") -> Culprit:
    seen = Observed(BEFORE, after, line, line_after, lambda number: Source(file="train.py", line=number))
    return culprit_of(ast.parse(text), seen, said)


def test_the_only_operator_that_is_left_is_the_culprit_in_its_module_and_at_its_line() -> None:
    culprit = found("import torch\nf(x)", outcome(("aten.view", 2, ""), ("aten.clamp", 2, "")))
    assert (culprit.operators, culprit.module) == (["aten.clamp"], "gate")
    assert culprit.source is not None and culprit.source.line == 7


def test_of_several_places_the_line_that_raised_is_the_one() -> None:
    culprit = found("f(x)", outcome(("aten.clamp", 2, "")), line=12)
    assert culprit.module == "post" and culprit.source is not None and culprit.source.line == 12


def test_of_several_operators_the_one_at_the_failing_line_is_the_culprit() -> None:
    after = outcome(("aten.relu", 2, ""), ("aten.clamp", 3, ""))
    assert found("f(x)", after, line_after=3).operators == ["aten.clamp"]
    assert found("f(x)", after).operators == [], "either may be"


def test_what_raises_beside_the_operators_is_not_one_of_them() -> None:
    text = "def f(x):\n    print(x)\n    return x + 1\nf(x)"
    one = outcome(("aten.add", 3, ""))
    assert found(text, one, line=2, line_after=2).operators == []
    assert found(text, one, line=4, line_after=4).operators == ["aten.add"], "the compiler raises where it is called"


def test_a_higher_order_operator_is_the_culprit_whatever_its_body_computes() -> None:
    after = outcome(("higher_order.scan", 2, ""), ("aten.add", 2, ""), ("aten.mul", 2, ""))
    assert found("with torch.no_grad():\n    f(x)", after).operators == ["higher_order.scan"]


def test_a_construct_is_named_before_an_operator_inside_of_it() -> None:
    text = "import torch\ndef f(x):\n    try:\n        return torch.linalg.cholesky(x)\n    except RuntimeError:\n        return x\n"
    culprit = found(text, outcome(("aten.clamp", 4, "")))
    assert culprit.what == "`except` clause around `torch.linalg.cholesky`" and culprit.operators == []
    assert culprit.source is not None and culprit.source.line == 5


def test_a_context_is_named_where_no_single_operator_is_left() -> None:
    text = "import torch\ndef f(x):\n    with torch.autocast('cpu'):\n        return g(x)\n"
    two = outcome(("aten.relu", 4, ""), ("aten.clamp", 4, ""))
    assert found(text, two).what == "`with torch.autocast` block"
    assert found(text, outcome(("aten.clamp", 4, ""))).operators == ["aten.clamp"]


@pytest.mark.parametrize(
    ("text", "circumstances", "words"),
    [
        ("import torch\ny = torch.compile(f)(torch.ones(1))\ny.register_hook(h)\n", [], "register_hook"),
        ("torch.autograd.grad(y.sum(), x)\n", ["a graph break"], "torch.autograd.grad, sum and a graph break"),
        ("def f(x):\n    return x\nf(1)\n", [], "this script"),
        ("@torch._dynamo.disable\ndef f(x):\n    return x\nf(1)\n", [], "torch._dynamo.disable"),
        ("model.layer = nn.Conv2d(1, 1, 1)\nmodel.compile()\nmodel.layer(x).a().b().c()\n", [], "c and b"),
        ("def f(x):\n    return x.mul_(2)\nb = a.clone()\ntorch.compile(f)(b)\n", [], "mul_"),
    ],
)
def test_the_calls_that_matter_are_named(text: str, circumstances: list[str], words: str) -> None:
    assert together(ast.parse(text), circumstances) == words
