"""Large values lie in files: equal to the bit, apart from their source, and of no memory until they are written to."""

from __future__ import annotations

import errno
import gc
import mmap
import os
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from minimizer.inside.values import pages
from minimizer.inside.values.snapshot import clone, kept

ELEMENTS = pages.LEAST // 4
Pair = namedtuple("Pair", "one other")


def is_in_file(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory is mapped from a file."""
    address = tensor.untyped_storage().data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, _, _, _, inode = line.split()[:5]
        first, last = (int(end, 16) for end in extent.split("-"))
        if first <= address < last:
            return inode != "0"
    raise AssertionError("the tensor has no memory")


def own_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's mapping that belong to this process alone."""
    address, is_inside = tensor.untyped_storage().data_ptr(), False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split()
        if "-" in name and not name.endswith(":"):
            first, last = (int(end, 16) for end in name.split("-"))
            is_inside = first <= address < last
        elif is_inside and name == "Anonymous:":
            return int(values[0]) << 10
    raise AssertionError("the tensor has no memory")


def test_a_kept_copy_lies_in_a_file_and_its_copies_take_memory_where_they_are_written_to() -> None:
    source = torch.randn(8 * ELEMENTS)
    (before,) = clone([source], is_kept=True)
    one, other = clone([before]), clone([before])
    assert is_in_file(before)
    assert is_in_file(one[0])
    assert own_bytes(one[0]) == 0
    one[0][:1024].zero_()
    assert 4096 <= own_bytes(one[0]) <= 8192
    assert torch.equal(before, source)
    assert torch.equal(other[0], source)
    assert not one[0][:1024].any()
    assert torch.equal(one[0][1024:], source[1024:])


def test_what_is_changed_in_a_copy_is_in_the_copies_of_that() -> None:
    (before,) = clone([torch.ones(ELEMENTS)], is_kept=True)
    (changed,) = clone([before])
    changed.fill_(2)
    (again,) = clone([changed])
    assert bool((again == 2).all())
    again.fill_(3)
    assert bool((changed == 2).all())


def test_the_source_may_change_after_it_was_kept() -> None:
    source = torch.ones(ELEMENTS)
    (before,) = clone([source], is_kept=True)
    source.zero_()
    assert bool((clone([before])[0] == 1).all())


def test_kept_values_keep_what_a_copy_keeps() -> None:
    base = torch.arange(2.0 * ELEMENTS)
    weight = torch.nn.Parameter(torch.randn(ELEMENTS))
    weight.grad = torch.randn(ELEMENTS)
    spectrum = torch.randn(ELEMENTS, dtype=torch.complex64).conj()
    values = [Pair(base, base.view(2, -1).t()), base[3:-3:4], weight, spectrum, torch.ones(3), 5]
    for copied in (clone(values, is_kept=True), clone(clone(values, is_kept=True))):
        pair, strided, parameter, conjugate, small, number = copied
        assert pair.one.untyped_storage()._cdata == strided.untyped_storage()._cdata
        for copy, value in zip(
            (*pair, strided, conjugate), (base, base.view(2, -1).t(), base[3:-3:4], spectrum), strict=True
        ):
            assert torch.equal(copy, value)
            assert (copy.stride(), copy.storage_offset()) == (value.stride(), value.storage_offset())
            assert copy.is_conj() == value.is_conj()
            assert is_in_file(copy)
        assert isinstance(parameter, torch.nn.Parameter)
        assert torch.equal(parameter.grad, weight.grad)
        assert is_in_file(parameter.grad)
        assert not is_in_file(small)
        assert number == 5


def test_a_parameter_mapped_from_a_file_has_its_own_gradient_and_can_be_trained() -> None:
    (before,) = clone([torch.nn.Parameter(torch.ones(ELEMENTS))], is_kept=True)
    (weight,) = clone([before])
    (weight * 3).sum().backward()
    torch.optim.SGD([weight], lr=1.0).step()
    assert bool((weight == -2).all())
    assert bool((before == 1).all())
    assert before.grad is None


def test_a_file_is_closed_with_the_last_tensor_that_lies_in_it() -> None:
    def count() -> int:
        gc.collect()
        return len([*Path("/proc/self/fd").iterdir()])

    open_before = count()
    copies = [clone(clone([torch.ones(ELEMENTS), torch.ones(ELEMENTS)], is_kept=True)) for _ in range(3)]
    assert all(bool((copy[1] == 1).all()) for copy in copies)
    del copies
    assert count() == open_before
    assert not pages.has_kept()


@pytest.mark.parametrize("free", [0, pages.SPARE])
def test_without_room_on_the_disk_values_stay_in_memory(free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs("/")
    full = os.statvfs_result([*found[:4], free // found.f_frsize, *found[5:]])
    monkeypatch.setattr(os, "fstatvfs", lambda file: full)
    (before,) = clone([torch.ones(ELEMENTS)], is_kept=True)
    assert not is_in_file(before)
    (copy,) = clone([before])
    copy.zero_()
    assert bool((before == 1).all())
    value = torch.ones(ELEMENTS)
    assert kept(value) is value


def test_a_result_goes_to_a_file_with_its_layout() -> None:
    value = torch.randn(1024, ELEMENTS // 512).t()
    copy = kept(value)
    assert copy is not None and is_in_file(copy)
    assert torch.equal(copy, value)
    assert copy.stride() == value.stride()
    copy.zero_()
    assert bool(value.any())


@pytest.mark.parametrize(
    "value",
    [
        None,
        torch.ones(3),
        torch.ones(ELEMENTS)[: ELEMENTS // 2],
        torch.ones(ELEMENTS, requires_grad=True),
        torch.eye(4).to_sparse(),
    ],
    ids=["none", "small", "part", "differentiable", "sparse"],
)
def test_other_results_stay_as_they_are(value: torch.Tensor | None) -> None:
    assert kept(value) is value


def test_places_begin_at_pages() -> None:
    (one, other) = clone([torch.ones(ELEMENTS + 1), torch.ones(ELEMENTS + 1)], is_kept=True)
    assert other.data_ptr() % mmap.PAGESIZE == one.data_ptr() % mmap.PAGESIZE == 0


def test_where_a_copy_cannot_be_mapped_it_is_made_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    held = clone([torch.ones(ELEMENTS)], is_kept=True)

    def refuses(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(pages, "_Pages", refuses)
    (copy,) = clone(held)
    assert torch.equal(copy, held[0]) and copy.data_ptr() != held[0].data_ptr()


def test_no_more_files_are_kept_than_a_process_can_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_FILES", 2)
    before = len([*Path("/proc/self/fd").iterdir()])
    held = [clone([torch.ones(ELEMENTS)], is_kept=True) for _ in range(6)]
    assert len([*Path("/proc/self/fd").iterdir()]) - before <= 4
    assert all(torch.equal(*pair) for pair in zip(held[0], held[-1], strict=True))


def test_a_list_that_contains_itself_is_copied_beside_kept_values() -> None:
    held = clone([torch.ones(ELEMENTS)], is_kept=True)
    values: list[object] = [torch.ones(2)]
    values.append(values)
    copy = clone(values)
    assert copy[1] is copy and torch.equal(copy[0], torch.ones(2))
    assert held
