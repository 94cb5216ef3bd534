"""Outputs that are one object where eager returns two: only a change that shows on the other one counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from minimizer.inside.referee.call import Side
from minimizer.inside.referee.compare import compare
from minimizer.inside.watch.merged_outputs import MergedOutputs


def returned() -> tuple[torch.Tensor, ...]:
    """What eager returns: a tensor, and a view that has its shape."""
    base = torch.ones(2, 3)
    return base, base.view(2, 3)


def watched() -> tuple[MergedOutputs, torch.Tensor]:
    merged, one = MergedOutputs(), torch.ones(2, 3)
    merged.keep(4, 7, returned(), (one, one))
    return merged, one


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda one: one.resize_(8), "shape was (2, 3), and is (8,)"),
        (lambda one: one.unsqueeze_(0), "shape was (2, 3), and is (1, 2, 3)"),
        (lambda one: one.t_(), "shape was (2, 3), and is (3, 2)"),
        (lambda one: one.requires_grad_(), "requires_grad was False, and is True"),
    ],
)
def test_a_change_that_shows_on_both_is_told_once(change: Callable[[torch.Tensor], object], said: str) -> None:
    merged, one = watched()
    change(one)
    merged.look()
    merged.look()
    (told,) = merged.changed
    assert (told.graph, told.call) == (4, 7)
    assert told.what == f"output[1] is the object of output[0]; its {said}"


@pytest.mark.parametrize(
    "factor", [torch.tensor(3.0), torch.ones(2, 3, requires_grad=True)], ids=["", "with a gradient"]
)
def test_elements_may_be_written_since_both_share_their_memory(factor: torch.Tensor) -> None:
    """In eager, too, the base of a view has a gradient once the view is multiplied by what has one."""
    merged, one = watched()
    one.mul_(factor)
    merged.look()
    assert merged.changed == []


def test_two_objects_may_be_changed() -> None:
    merged, outputs = MergedOutputs(), returned()
    merged.keep(0, 0, returned(), outputs)
    outputs[1].resize_(8)
    merged.look()
    assert merged.changed == []


def test_one_object_may_be_changed_that_eager_returns_twice() -> None:
    merged, one, other = MergedOutputs(), torch.ones(2), torch.ones(2)
    merged.keep(0, 0, (other, other), (one, one))
    one.resize_(8)
    merged.look()
    assert merged.changed == []


def test_what_nobody_holds_any_more_is_forgotten() -> None:
    merged, one = watched()
    del one
    merged.look()
    assert merged.changed == []


def test_one_object_is_a_difference_only_where_it_is_asked_for() -> None:
    one = torch.ones(2, 3)
    assert compare(Side(returned()), Side((one, one))) == []
    (difference,) = compare(Side(returned()), Side((one, one)), identity=True)
    assert (difference.where, difference.what, difference.kind) == ("output[1]", "identity", "wrong_metadata")
    assert compare(Side((one, one)), Side((one, one)), identity=True) == []
