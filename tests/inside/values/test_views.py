"""How a view lies in its base is told in words that a person would type, and copies are views where their sources are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from minimizer.inside.values.snapshot import clone
from minimizer.inside.values.views import ViewStep, applied, base_of, steps

CUBE = torch.arange(120.0).reshape(4, 5, 6).clone()
LINE = torch.arange(10.0)
ALL = slice(None)


def item(index: Any) -> ViewStep:
    return ViewStep("operator.getitem", (index,))


@pytest.mark.parametrize(
    ("view", "made"),
    [
        (CUBE[1:], [item(slice(1, None))]),
        (CUBE[:], [item(ALL)]),
        (CUBE[2:3], [item(slice(2, 3))]),
        (CUBE[::2], [item(slice(None, None, 2))]),
        (CUBE[:, 2], [item((ALL, 2))]),
        (CUBE[1, 2, 3], [item((1, 2, 3))]),
        (CUBE[1:3, 2:, 1:5:3], [item((slice(1, 3), slice(2, None), slice(1, None, 3)))]),
        (CUBE[:, :0], [item((ALL, slice(None, 0)))]),
        (CUBE[0].t(), [item(0), ViewStep(".t", ())]),
        (CUBE.permute(2, 0, 1), [ViewStep(".permute", (2, 0, 1))]),
        (CUBE[0].t()[2:], [item((0, ALL, slice(2, None))), ViewStep(".t", ())]),
        (CUBE.view(20, 6), [ViewStep(".view", (20, 6))]),
        (CUBE[None], [ViewStep(".view", (1, 4, 5, 6))]),
        (CUBE[1:3].view(10, 6), [ViewStep(".view", (-1,)), item(slice(30, 90)), ViewStep(".view", (10, 6))]),
        (CUBE.unfold(2, 3, 1), [ViewStep(".as_strided", ((4, 5, 4, 3), (30, 6, 1, 1), 0))]),
        (CUBE.diagonal(0, 0, 1), [ViewStep(".as_strided", ((6, 4), (1, 36), 0))]),
        (CUBE[:1].expand(3, 5, 6), [ViewStep(".as_strided", ((3, 5, 6), (0, 6, 1), 0))]),
        (LINE[2:], [item(slice(2, None))]),
        (LINE[3], [item(3)]),
        (LINE[2:8].view(2, 3), [item(slice(2, 8)), ViewStep(".view", (2, 3))]),
        (torch.ones(1).view(()), [item(0)]),
    ],
)
def test_words(view: Tensor, made: list[ViewStep]) -> None:
    base = base_of(view)
    assert base is not None
    assert steps(view, base) == made
    again = applied(made, base)
    assert (again.shape, again.stride(), again.storage_offset()) == (view.shape, view.stride(), view.storage_offset())
    assert torch.equal(again, view)


@pytest.mark.parametrize(
    "view", [CUBE, CUBE.detach(), CUBE.view(torch.int32), torch.zeros(2, dtype=torch.complex64).conj()]
)
def test_what_is_no_view_of_another_or_reads_its_memory_otherwise_has_no_base(view: Tensor) -> None:
    assert base_of(view) is None


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_a_copied_view_is_a_view_of_the_copied_base(places: tuple[int, int]) -> None:
    base = torch.arange(12.0).reshape(3, 4).clone()
    pair = [base, base[1:, ::2]]
    copies = clone([pair[place] for place in places])
    copy, view = copies[places.index(0)], copies[places.index(1)]
    assert view._base is copy and copy is not base
    assert (view.stride(), view.storage_offset()) == (pair[1].stride(), pair[1].storage_offset())
    copy.zero_()
    assert view.tolist() == [[0, 0], [0, 0]] and base[0, 1] == 1


def test_views_of_one_base_that_is_not_copied_itself_have_one_base() -> None:
    base = torch.arange(10.0)
    one, other = clone([base[:4], base[2:]])
    assert one._base is not None and one._base is other._base and one._base is not base
    assert torch.equal(one._base, base)


def test_memory_that_is_shared_without_a_base_is_shared_without_one() -> None:
    base = torch.arange(6.0)
    part = torch.empty(0).set_(base.untyped_storage(), 2, (3,), (1,))
    copy, other = clone([base, part])
    assert copy._base is None and other._base is None
    copy.zero_()
    assert other.tolist() == [0, 0, 0] and part.tolist() == [2, 3, 4]


@pytest.mark.parametrize("is_leaf", [True, False])
def test_what_requires_a_gradient_has_its_own_in_a_copy(is_leaf: bool) -> None:
    """The gradient of a base contains those of its views; that which a compiled call returns does not."""
    weight = torch.arange(4.0).requires_grad_()
    base = weight if is_leaf else weight * 2
    copy, view = clone([base, base[1:]])
    assert view._base is None and view.requires_grad and copy.is_leaf is is_leaf
    first, second = torch.autograd.grad(view.sum() + copy.sum(), [copy, view])
    assert first.tolist() == [1, 1, 1, 1] and second.tolist() == [1, 1, 1]
    base = torch.ones(4)
    copy, view = clone([base, base[1:].requires_grad_()])
    assert view._base is None and view.is_leaf and view.requires_grad and not copy.requires_grad


def test_the_gradient_of_a_base_is_copied_only_where_the_base_is() -> None:
    base = torch.ones(4)
    base.grad = torch.full((4,), 3.0)
    (view,) = clone([base[1:]])
    assert view._base is not None and view._base.grad is None
    (view, copy) = clone([base[1:], base])
    assert view._base is copy and copy.grad is not None and copy.grad.tolist() == [3, 3, 3, 3]


def test_into_the_copy_of_a_view_may_be_written_what_requires_a_gradient() -> None:
    """As into a cache, what a layer has computed."""
    base = torch.zeros(4, 4)
    weight = torch.ones(3, 4, requires_grad=True)
    (view,) = clone([base[1:]])
    view.mul_(weight)
    (gradient,) = torch.autograd.grad(view.sum(), weight)
    assert gradient.tolist() == [[0.0] * 4] * 3


def resized(size: int) -> Tensor:
    base = torch.ones(4, 4)
    view = base[1:]
    base.resize_(size)
    return view


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(0, 3).view(-1),
        lambda: torch.empty(4, 0)[1],
        lambda: torch.empty(4, 0, 3).reshape(0, 3),
        lambda: resized(2),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).unbind()[0],
    ],
    ids=["flat", "row", "reshaped", "base resized", "of a nested tensor"],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_views_of_odd_bases_are_copied(make: Any) -> None:
    view = make()
    (copied,) = clone([view])
    assert copied.shape == view.shape and copied.stride() == view.stride()
    assert torch.equal(copied, view)
