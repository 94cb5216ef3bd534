"""Recipes of inputs: the text makes tensors that share, lie and require gradients as those of the call did."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from minimizer.inside.graph.literals import Opaque
from minimizer.inside.graph.recipes import recipe


def made(*inputs: Any) -> list[Any]:
    """The inputs that the recipe of these makes."""
    found = recipe(inputs)
    namespace: dict[str, Any] = {"torch": torch}
    exec("\n".join(found.statements), namespace)
    return [eval(value, namespace) for value in found.values]


BASE = torch.full((12,), 2.0)
SINGLE = {
    "ones": torch.ones(2, 3),
    "one value": torch.full((5,), 0.25, dtype=torch.bfloat16),
    "literal": torch.tensor([[1, -2], [3, 4]]),
    "bool": torch.tensor([True, False]),
    "scalar": torch.tensor(3.0),
    "empty": torch.empty(0, 2),
    "transposed": torch.arange(4.0).reshape(2, 2).T,
    "expanded": torch.ones(3, 1).expand(3, 4),
    "negative zeros": torch.full((3,), -0.0),
    "zeros of both signs": torch.tensor([0.0, -0.0, 0.0]),
    "slice": BASE[4:8],
    "every other": BASE[1::2],
}


@pytest.mark.parametrize("value", SINGLE.values(), ids=SINGLE)
def test_small_tensor_comes_back_as_it_was(value: Tensor) -> None:
    (again,) = made(value)
    assert again.dtype == value.dtype and again.shape == value.shape and again.stride() == value.stride()
    assert torch.equal(again, value) and torch.equal(again.signbit(), value.signbit())
    assert (again.storage_offset() - value.storage_offset()) * value.element_size() % 64 == 0


@pytest.mark.parametrize(
    "value",
    [torch.randn(300), torch.rand(300).half(), torch.randint(-3, 9, (300,)), torch.rand(300) > 0.5],
    ids=["normal", "positive", "integers", "bool"],
)
def test_large_tensor_is_drawn_from_the_same_range(value: Tensor) -> None:
    (again,) = made(value)
    assert again.dtype == value.dtype and again.shape == value.shape
    if value.dtype is not torch.bool:
        assert bool((again >= 0).all()) == bool((value >= 0).all())
    if value.dtype is torch.int64:
        assert value.min() <= again.min() and again.max() <= value.max()


def test_views_of_one_storage_overlap_as_they_did() -> None:
    x, y, whole = made(BASE[2:6], BASE[4:8], BASE)
    x.zero_()
    assert y.tolist() == [0, 0, 2, 2]
    assert whole.tolist() == [2, 2, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2]


def test_gradients_are_required_of_leaves_and_of_what_was_computed() -> None:
    weight = torch.ones(3, requires_grad=True)
    leaf, computed, plain = made(weight, weight * 2, torch.ones(3))
    assert leaf.is_leaf and leaf.requires_grad
    assert computed.requires_grad and not computed.is_leaf
    assert not plain.requires_grad


def test_numbers_stand_as_they_are() -> None:
    assert made(3, 0.5, True, None) == [3, 0.5, True, None]


@pytest.mark.parametrize(
    "inputs",
    [(object(),), (torch.ones(3).to_sparse(),), (BASE, BASE.view(torch.int32))],
    ids=["object", "sparse", "two dtypes of one storage"],
)
def test_what_has_no_text_is_refused(inputs: tuple[Any, ...]) -> None:
    with pytest.raises(Opaque):
        recipe(inputs)
