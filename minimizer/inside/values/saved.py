"""Counts what autograd saves for backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .snapshot import has_plain_storage


@contextmanager
def saved_bytes() -> Iterator[Mapping[StorageWeakRef, int]]:
    """Record the sizes of all storages that autograd saves in this thread inside; other types of tensors do not count.

    Keyed by weak references, since a freed address would be reused by another storage.
    """
    saved: dict[StorageWeakRef, int] = {}

    def pack(value: torch.Tensor) -> torch.Tensor:
        if has_plain_storage(value):
            storage = value.untyped_storage()
            saved[StorageWeakRef(storage)] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield saved
