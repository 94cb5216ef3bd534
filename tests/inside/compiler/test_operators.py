"""What a function does in eager, by the names of its operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from minimizer.inside.compiler.operators import Operators


def branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,))  # type: ignore[no-any-return]


def rounds(x: Tensor) -> Tensor:
    return while_loop(lambda v: v.sum() < 9, lambda v: (v.exp(),), (x,))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: (x + 1).relu().relu(), ["aten.add", "aten.relu"]),
        (branches, ["aten.sum", "aten.gt", "higher_order.cond", "aten.sin"]),
        (rounds, ["higher_order.while_loop", "aten.sum", "aten.lt", "aten.exp"]),
    ],
    ids=["plain", "cond", "while_loop"],
)
def test_operators_are_named_in_order_those_of_bodies_too(
    function: Callable[[Tensor], Tensor], names: list[str]
) -> None:
    x = torch.ones(3)
    with Operators() as operators:
        function(x)
    assert operators.seen == names
