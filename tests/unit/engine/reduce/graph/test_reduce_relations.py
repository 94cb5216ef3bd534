"""An input that is a view of another one stays a view only where the failure needs that."""

from __future__ import annotations

import pytest
from fake_check import FakeCheck, Rule, both, has, no_literal

from minimizer.engine.program import views
from minimizer.engine.program.arguments import Ref
from minimizer.engine.program.model import Input, Node, Program, TensorMeta, View
from minimizer.engine.reduce.graph import reduce


def windowed(dtype: str = "torch.float32") -> Program:
    base, part = TensorMeta((8, 3, 6), dtype, (18, 6, 1)), TensorMeta((5, 3, 6), dtype, (18, 6, 1))
    view = View("x", (Node("", "operator.getitem", (slice(3, None),)),))
    return Program(
        inputs=(Input("x", base, golden="x"), Input("y", part, golden="y", view=view)),
        nodes=(
            Node("a", ".mul_", (Ref("x"), 2), meta=base),
            Node("s", ".relu", (Ref("y"),), meta=part),
            Node("b", "operator.getitem", (Ref("s"), slice(0, 2)), meta=TensorMeta((2, 3, 6), dtype)),
        ),
        outputs=("b",),
    )


def is_view(program: Program) -> bool:
    return any(item.view is not None for item in program.inputs)


def made_of(program: Program) -> dict[str, str | None]:
    return {i.name: views.text(i.view) if i.view else i.code for i in program.inputs}


def test_a_view_that_is_needed_stays_and_its_base_becomes_small() -> None:
    def has_two(program: Program) -> bool:
        """Two elements are read of the view."""
        shapes = [i.meta.shape for i in program.inputs if i.view is not None and i.meta is not None]
        return bool(shapes) and shapes[0][0] >= 2

    result = reduce(
        windowed(), check=FakeCheck(both(has(".mul_", "operator.getitem"), has_two)), literal=no_literal
    ).best
    assert made_of(result) == {"x": "torch.ones(3, 1, 1)", "y": "x[1:]"}
    assert [i.meta.shape for i in result.inputs if i.meta] == [(3, 1, 1), (2, 1, 1)]


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.int64", "torch.bool"])
def test_a_view_that_is_not_needed_becomes_an_input_of_its_own(dtype: str) -> None:
    needs: Rule = both(has(".mul_", "operator.getitem"), lambda program: len(program.inputs) == 2)
    result = reduce(windowed(dtype), check=FakeCheck(needs), literal=no_literal).best
    assert not is_view(result) and all(item.code for item in result.inputs)


def test_a_view_whose_values_are_needed_may_be_a_literal() -> None:
    text = "torch.tensor([[0.25]])"

    def needs_values(program: Program) -> bool:
        item = next((i for i in program.inputs if i.name == "y"), None)
        return item is not None and (item.golden == "y" or item.code == text)

    result = reduce(
        windowed(), check=FakeCheck(both(has("operator.getitem"), needs_values)), literal=lambda key: text
    ).best
    assert [(i.code, i.view) for i in result.inputs] == [(text, None)]


def test_the_relation_is_no_reason_to_keep_the_base() -> None:
    result = reduce(windowed(), check=FakeCheck(has("operator.getitem")), literal=no_literal).best
    assert list(made_of(result).values()) == ["torch.ones(1)"]
