"""Copies are faithful, and taken at the time."""

from __future__ import annotations

import random
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch

from minimizer.inside.values.snapshot import clone, global_state, rng_state, set_rng_state


def shares(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


def test_trap_07_golden_values_are_copies_taken_at_the_time() -> None:
    x = torch.ones(3)
    a = x.sin()
    golden = clone([x, a])
    a.mul_(100)
    x.zero_()
    assert torch.equal(golden[0], torch.ones(3))
    assert torch.equal(golden[1], torch.ones(3).sin())


def test_trap_07_changes_to_the_copy_do_not_reach_the_caller() -> None:
    base = torch.arange(6.0)
    copy = clone((base, base[1:4]))
    copy[1].fill_(-1)
    assert torch.equal(base, torch.arange(6.0))
    assert copy[0].tolist() == [0, -1, -1, -1, 4, 5]


def test_views_of_one_storage_become_views_of_one_copied_storage() -> None:
    base = torch.arange(24.0)
    views = [base, base.view(4, 6).t(), base[3:20:4], base.view(4, 6)[1:, 2:5], base.view(torch.int32)]
    copies = clone(views)
    assert not shares(copies[0], base)
    for view, copy in zip(views, copies, strict=True):
        assert shares(copy, copies[0])
        assert torch.equal(copy, view)
        assert (copy.stride(), copy.storage_offset(), copy.dtype) == (view.stride(), view.storage_offset(), view.dtype)


def test_sharing_of_a_storage_whose_base_is_not_among_the_values() -> None:
    base = torch.arange(10.0)
    one, other = clone([base[:4], base[2:6]])
    one.zero_()
    assert other.tolist() == [0, 0, 4, 5]


def test_expanded_overlapping_and_empty_tensors() -> None:
    one = torch.tensor([1.0, 2.0])
    values = [one.expand(3, 2), torch.arange(5.0).unfold(0, 3, 1), torch.zeros(0, 4), torch.tensor(3), one[2:]]
    for value, copy in zip(values, clone(values), strict=True):
        assert torch.equal(copy, value)
        assert copy.stride() == value.stride()


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.complex64]
)
def test_dtypes(dtype: torch.dtype) -> None:
    value = torch.tensor([0, 1, 3]).to(dtype)
    copy = clone(value)
    assert copy.dtype is dtype
    assert torch.equal(copy, value)


def test_conj_and_neg_bits_are_kept() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    conj, neg = clone([z.conj(), z.conj().imag])
    assert conj.is_conj() and neg.is_neg()
    assert torch.equal(conj, z.conj())
    assert torch.equal(neg, z.conj().imag)


def test_leaf_stays_leaf_and_non_leaf_stays_non_leaf() -> None:
    leaf = torch.ones(3, requires_grad=True)
    computed = leaf * 2
    plain, copied_leaf, copied_computed = clone([torch.ones(1), leaf, computed])
    assert (plain.requires_grad, copied_leaf.requires_grad, copied_computed.requires_grad) == (False, True, True)
    assert copied_leaf.is_leaf and not copied_computed.is_leaf
    copied_computed.mul_(3)  # as free as on its source; on a leaf this raises
    assert torch.equal(computed, torch.full((3,), 2.0))


def test_gradients_flow_to_copies_and_not_to_sources() -> None:
    leaf = torch.ones(3, requires_grad=True)
    computed = leaf * 2
    copies = clone([leaf, computed])
    grads = torch.autograd.grad((copies[0] * copies[1]).sum(), copies)
    assert [g.tolist() for g in grads] == [[2, 2, 2], [1, 1, 1]]
    assert leaf.grad is None


def test_parameters_their_gradients_and_frozen_ones() -> None:
    weight, frozen = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False)
    weight.grad = torch.full((2,), 5.0)
    copy, still = clone([weight, frozen])
    assert type(copy) is torch.nn.Parameter and type(still) is torch.nn.Parameter
    assert copy.requires_grad and not still.requires_grad
    assert copy.grad is not weight.grad and torch.equal(copy.grad, weight.grad)


def test_tied_parameters_stay_tied_and_one_object_stays_one() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    copies = clone({"embedding": weight, "head": weight, "row": weight.detach()[:1]})
    assert copies["embedding"] is copies["head"]
    assert shares(copies["row"], copies["head"])


def test_inference_tensors_stay_inference_tensors() -> None:
    ordinary = torch.ones(2)
    with torch.inference_mode():
        inference = torch.ones(2)
        assert not clone(ordinary).is_inference()
    assert clone(inference).is_inference()


def test_dynamic_marks_travel_with_the_copy() -> None:
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    copy = clone(x)
    assert copy._dynamo_dynamic_indices == {0}
    assert copy._dynamo_dynamic_indices is not x._dynamo_dynamic_indices  # type: ignore[attr-defined]


def test_zero_tensors_of_autograd_stay_what_they_are() -> None:
    assert clone(torch._efficientzerotensor((2, 3)))._is_zerotensor()


def test_what_has_no_plain_storage_is_cloned_with_a_note() -> None:
    notes: list[str] = []
    sparse, meta = clone([torch.eye(2).to_sparse(), torch.empty(2, device="meta")], notes=notes)
    assert sparse.layout is torch.sparse_coo and meta.device.type == "meta"
    assert [note.split(" is copied")[0] for note in notes] == ["sparse_coo tensor on cpu", "strided tensor on meta"]


class Tag(torch.Tensor):
    pass


class OwnParameter(torch.nn.Parameter):
    pass


def test_classes_of_the_users_own_are_kept_and_so_is_what_they_share() -> None:
    base = torch.arange(4.0)
    tag, learned = base[1:3].as_subclass(Tag), OwnParameter(torch.ones(2))
    tag.scale = torch.ones(1)  # type: ignore[attr-defined]
    learned.grad = torch.full((2,), 5.0)
    computed = (learned * 2).as_subclass(Tag)
    notes: list[str] = []
    copies = clone([base, tag, learned, computed], notes=notes)
    assert [type(copy) for copy in copies] == [torch.Tensor, Tag, OwnParameter, Tag]
    assert shares(copies[0], copies[1]) and not shares(copies[1], tag)
    assert torch.equal(copies[1].scale, torch.ones(1)) and not shares(copies[1].scale, tag.scale)  # type: ignore[attr-defined]
    assert copies[2].is_leaf and copies[2].requires_grad and torch.equal(copies[2].grad, learned.grad)
    assert copies[3].requires_grad and not copies[3].is_leaf
    assert notes == []


def test_tensors_that_wrap_others_are_made_anew_around_copies() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    base = torch.ones(4)
    ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, requires_grad=True)
    notes: list[str] = []
    first, wrapped, nested, doubled = clone([base, TwoTensor(base[:2], base[:2]), ragged, ragged * 2], notes=notes)
    assert isinstance(wrapped, TwoTensor) and shares(wrapped.a, first) and not shares(wrapped.a, base)
    assert nested.is_leaf and nested.requires_grad and not doubled.is_leaf
    assert (nested * doubled).shape == nested.shape, "their ragged sizes are one and the same, as those of the sources"
    assert notes == []


def test_containers_keep_their_types_and_may_contain_themselves() -> None:
    point = namedtuple("point", "x y")
    nest: list[Any] = [point(torch.ones(1), 2), OrderedDict(a={1, 2}), (3, "text", None, torch.float32)]
    nest.append(nest)
    copy = clone(nest)
    assert copy is not nest and copy[3] is copy
    assert type(copy[0]) is point and copy[0].x is not nest[0].x and copy[0].y == 2
    assert type(copy[1]) is OrderedDict and copy[1]["a"] == {1, 2} and copy[1]["a"] is not nest[1]["a"]
    assert copy[2] == nest[2]


def test_objects_of_unknown_type_are_kept_with_a_note() -> None:
    class Config:
        pass

    config, notes = Config(), []
    assert clone([config, len], notes=notes)[0] is config
    assert len(notes) == 1 and "Config is kept by reference" in notes[0]


def test_generators_are_copied_with_their_state() -> None:
    generator = torch.Generator().manual_seed(7)
    copy = clone(generator)
    assert torch.equal(torch.rand(3, generator=copy), torch.rand(3, generator=generator))


def test_rng_state_brings_every_stream_back() -> None:
    state = rng_state()
    first = (torch.rand(3).tolist(), random.random())
    set_rng_state(state)
    assert (torch.rand(3).tolist(), random.random()) == first


def test_precisions_that_were_set_for_one_backend_are_kept() -> None:
    before = global_state()
    torch.backends.cuda.matmul.fp32_precision = "tf32"  # get_float32_matmul_precision() raises from now on
    try:
        special = global_state()
        torch.backends.cuda.matmul.fp32_precision = "none"
        with special.applied():
            assert torch.backends.cuda.matmul.fp32_precision == "tf32"
        assert torch.backends.cuda.matmul.fp32_precision == "none"
    finally:
        torch.backends.cuda.matmul.fp32_precision = "none"
    assert global_state() == before


def test_graphs_are_run_as_dynamo_runs_them_whatever_a_class_of_tensors_does() -> None:
    with torch._C.DisableTorchFunctionSubclass():
        inside = global_state()
    with inside.applied():
        assert type(torch.ones(2).as_subclass(Tag) + 1) is torch.Tensor
    assert type(torch.ones(2).as_subclass(Tag) + 1) is Tag


def test_global_state_is_applied_and_then_as_before() -> None:
    torch.set_float32_matmul_precision("highest")
    before = global_state()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("medium")
        torch.set_num_threads(1)
        special = global_state()
        torch.set_default_dtype(before.default_dtype)
        torch.use_deterministic_algorithms(before.deterministic)
        torch.set_float32_matmul_precision(before.matmul_precision)
        torch.set_num_threads(before.threads)
    assert global_state() == before
    with special.applied():
        assert global_state() == special
        assert torch.ones(1).dtype is torch.float64
        assert (torch.ones(2, 2, dtype=torch.float32) @ torch.ones(2, 2, dtype=torch.float32)).dtype is torch.float16
    assert global_state() == before


def test_a_parameter_made_in_inference_mode_is_copied() -> None:
    with torch.inference_mode():
        weight = torch.nn.Linear(2, 2).weight
    copied = clone(weight)
    assert (type(copied), copied.is_inference(), copied.requires_grad) == (torch.nn.Parameter, True, True)
    assert not shares(copied, weight)


def test_tensors_that_lead_to_each_other_are_copied_once() -> None:
    weight, average = torch.nn.Parameter(torch.ones(2)), torch.zeros(2)
    weight.average, average.source = average, weight  # type: ignore[attr-defined]
    weight.me = weight  # type: ignore[attr-defined]
    copied = clone([weight])[0]
    assert copied is copied.me is copied.average.source
    assert not shares(copied.average, average)


def test_global_state_keeps_inference_mode_and_default_device() -> None:
    with torch.inference_mode(), torch.device("meta"):
        special = global_state()
    with special.applied():
        assert torch.is_inference_mode_enabled()
        assert torch.ones(1).device.type == "meta"
    assert torch.ones(1).device.type == "cpu"
    assert not torch.is_inference_mode_enabled()


def test_a_run_that_raises_within_autocast_leaves_no_casts_of_weights_to_the_script() -> None:
    """They are forgotten where the outermost block ends, which is none if one stays open: the script would go on with old weights."""
    weight = torch.nn.Parameter(torch.ones(2, 2))

    def products() -> list[float]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.nn.functional.linear(torch.ones(1, 2), weight).flatten().tolist()

    with pytest.raises(ZeroDivisionError), global_state().applied():
        torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, True)
        raise ZeroDivisionError
    assert products() == [2.0, 2.0]
    with torch.no_grad():
        weight.mul_(3)
    assert products() == [6.0, 6.0]


def test_a_run_in_the_script_s_own_autocast_leaves_that_open() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with global_state().applied(), torch.autocast("cpu", dtype=torch.float16):
            pass
        assert torch.autocast_decrement_nesting() == 0
        torch.autocast_increment_nesting()


def test_global_state_comes_back_after_an_exception() -> None:
    before = global_state()
    with torch.no_grad():
        special = global_state()
    with pytest.raises(ZeroDivisionError), special.applied():
        raise ZeroDivisionError
    assert global_state() == before
