"""Counts what autograd saves for backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .snapshot import has_plain_storage


@contextmanager
def saved_bytes() -> Iterator[Mapping[StorageWeakRef, int]]:
    """Inside, the sizes of all storages that autograd saves in this thread are noted; tensors of other kinds do not count.

    By references that do not keep the memory: an address would be that of another storage once it is free.
    """
    saved: dict[StorageWeakRef, int] = {}

    def pack(value: torch.Tensor) -> torch.Tensor:
        if has_plain_storage(value):
            storage = value.untyped_storage()
            saved[StorageWeakRef(storage)] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield saved
