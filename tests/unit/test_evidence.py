"""What a report says of the culprit, given a reduced program and what was seen of it."""

from __future__ import annotations

import pytest

from minimizer.evidence import culprit_of, details_of, dispute
from minimizer.program import Input, Node, Program, Ref, TensorMeta
from minimizer.protocol import Difference, Outcome, Verdict

META = TensorMeta((4,), "torch.float32", (1,))


def calling(*targets: str) -> Program:
    nodes = tuple(Node(f"v{index}", target, (Ref("x"),), meta=META) for index, target in enumerate(targets))
    return Program((Input("x", META, code="torch.ones(4)"),), nodes, (nodes[-1].name,))


def test_operators_that_were_seen_are_blamed_without_bookkeeping() -> None:
    program = calling("torch.nn.functional.gelu")
    assert culprit_of(program, ["aten.view", "aten.gelu"], None, program).ops == ["aten.gelu"]
    assert culprit_of(program, ["aten.view"], None, program).ops == ["aten.view"]


@pytest.mark.parametrize(
    ("target", "ops"),
    [
        ("torch.ldexp", ["aten.ldexp"]),
        (".sin_", ["aten.sin_"]),
        ("torch.nn.functional.gelu", ["aten.gelu"]),
        ("torch.ops.aten.add.Tensor", ["aten.add"]),
        ("torch._functorch.predispatch._make_dual", []),
        ("operator.add", []),
    ],
)
def test_calls_are_blamed_by_name_where_nothing_could_be_watched(target: str, ops: list[str]) -> None:
    """Where watching the operators crashes the process too."""
    program = calling(target)
    assert culprit_of(program, [], None, program).ops == ops


def differs(outcome: str, **verdict: object) -> Outcome:
    return Outcome.model_validate({"outcome": outcome, "verdict": verdict})


def test_what_only_the_script_calls_a_failure_is_in_dispute() -> None:
    shown = Outcome(
        outcome="different", verdict=Verdict(fault=True, differences=[Difference(max_abs=1e-6, required_atol=2e-6)])
    )
    assert dispute(shown, differs("different", fault=True)) is None
    assert dispute(shown, differs("compile_error")) is None
    text = dispute(shown, differs("same"))
    assert text is not None
    assert "atol=2.0e-06 would pass" in text
    eager_is_worse = dispute(shown, differs("same", compiled_error=1e-8, eager_error=1e-6))
    assert eager_is_worse is not None
    assert "eager is the less accurate side" in eager_is_worse


@pytest.mark.parametrize(("expected", "actual"), [("Tensor(4,) float32", "None"), ("None", "Tensor(4,) float32")])
def test_a_repro_asks_for_a_gradient_that_one_side_does_not_have(expected: str, actual: str) -> None:
    meta = TensorMeta((4,), "torch.float32", (1,), requires_grad=True)
    program = Program((Input("x", meta, code="torch.ones(4)"),), (), ("x",))
    gone = Difference(where="grad[0]", kind="wrong_gradient", what="type", expected=expected, actual=actual)
    wrong = Difference(where="grad[0]", kind="wrong_gradient", what="value", expected="1.0", actual="2.0")

    def details(difference: Difference) -> object:
        return details_of(program, Outcome(outcome="different", verdict=Verdict(differences=[difference])), None)

    assert details(gone) == {"gradients": ["x"], "unused": True}
    assert details(wrong) == {"gradients": ["x"]}


def test_inputs_that_are_written_to_are_named_and_a_child_can_name_no_others() -> None:
    """What a child says is not to be trusted: it runs the user's script."""
    outcome = Outcome(outcome="same", writes=[0, 7, -1])
    assert details_of(calling(".sin_"), outcome, None)["writes"] == ["x"]
