"""What ``torch.library.opcheck`` says of operators of a script's own, on the arguments that eager gives them."""

from __future__ import annotations

from typing import Any

import pytest
from children import SECONDS, trial

from minimizer.engine.child.executor import Executor
from minimizer.inside.questions import OperatorsRequest

DEFINED = """
@torch.library.custom_op("lib::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    {body}

@scaled.register_fake
def _(x):
    return {fake}
"""
LIBRARY = """
library = torch.library.Library("lib", "DEF")
library.define("scaled(Tensor x) -> Tensor")
{registered}
library.impl("scaled", lambda x: torch.empty_like(x), "Meta")
"""
AS_AUTOGRAD_FUNCTION = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2
library.impl("scaled", Scaled.apply, "CPU")
"""


def found(
    child: Executor, setup: str, body: str = "return torch.ops.lib.scaled(x + 1)", **changes: Any
) -> dict[str, str]:
    asked = {"operators": ["lib.scaled"], "differentiates": False, **changes}
    (outcome,) = child.judge([OperatorsRequest(**vars(trial(body, setup=setup)), **asked)], timeout=SECONDS)
    return dict(outcome.values)


@pytest.mark.parametrize(
    ("body", "fake", "test", "says"),
    [
        ("x.add_(1)\n    return x * 2", "torch.empty_like(x)", "test_schema", "not defined as mutable but was mutated"),
        ("return x * 2", "torch.empty_like(x, dtype=torch.float64)", "test_faketensor", "float64"),
        ("return x * 2", "x.new_empty(x.shape[0] + 1)", "test_faketensor", "mismatched tensor metadata"),
        ("return x.view(2, 2).t().contiguous().t()", "x.new_empty(2, 2)", "test_faketensor", "tride"),
    ],
    ids=["mutation", "dtype", "shape", "strides"],
)
def test_a_broken_promise_is_found(child: Executor, body: str, fake: str, test: str, says: str) -> None:
    (said,) = found(child, DEFINED.format(body=body, fake=fake)).values()
    assert said.startswith(f"{test}: ")
    assert says in said


def test_a_result_that_shares_memory_unsaid_is_found(child: Executor) -> None:
    setup = LIBRARY.format(registered='library.impl("scaled", lambda x: x.view(2, 2).view(4), "CPU")')
    (said,) = found(child, setup).values()
    assert said.startswith("test_schema: ")
    assert "alias" in said


def test_an_operator_that_keeps_its_promises_is_found_nothing_of(child: Executor) -> None:
    assert found(child, DEFINED.format(body="return x * 2", fake="torch.empty_like(x)")) == {}


def test_it_is_asked_with_the_arguments_that_eager_gives_it(child: Executor) -> None:
    setup = DEFINED.format(body="if x.sum() > 7:\n        x.zero_()\n    return x * 2", fake="torch.empty_like(x)")
    assert found(child, setup, "return torch.ops.lib.scaled(x)") == {}
    later = "y = torch.ops.lib.scaled(x)\nreturn torch.ops.lib.scaled(y)"
    assert list(found(child, setup, later)) == ["lib.scaled"]


def test_autograd_counts_where_gradients_are_in_question(child: Executor) -> None:
    setup = LIBRARY.format(registered=AS_AUTOGRAD_FUNCTION)
    assert found(child, setup) == {}
    (said,) = found(child, setup, differentiates=True).values()
    assert said.startswith("test_autograd_registration: ")


@pytest.mark.parametrize(
    "body",
    [
        "raise RuntimeError('not today')",
        "import os; os.abort()",
        "if type(x) is not torch.Tensor or torch._C._len_torch_dispatch_stack(): raise TypeError('no modes')\n    return x * 2",
    ],
    ids=["raises", "dies", "minds a mode"],
)
def test_what_the_check_meets_otherwise_says_nothing(child: Executor, body: str) -> None:
    assert found(child, DEFINED.format(body=body, fake="torch.empty_like(x)")) == {}


def test_a_fake_that_raises_says_nothing(child: Executor) -> None:
    assert found(child, DEFINED.format(body="return x * 2", fake="x.no_such_thing()")) == {}


def test_a_call_in_the_body_of_another_operator_is_seen(child: Executor) -> None:
    setup = DEFINED.format(body="x.add_(1)\n    return x * 2", fake="torch.empty_like(x)")
    body = "return torch.cond(x.sum() > 0, lambda x: torch.ops.lib.scaled(x + 1), lambda x: x - 1, (x,))"
    assert list(found(child, setup, body)) == ["lib.scaled"]
