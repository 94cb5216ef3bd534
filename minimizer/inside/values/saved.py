"""Counts what autograd saves for backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch


@contextmanager
def saved_bytes() -> Iterator[Mapping[int, int]]:
    """Inside, the sizes of all storages that autograd saves in this thread are noted, by address: what a repro counts in the same way."""
    saved: dict[int, int] = {}

    def pack(value: torch.Tensor) -> torch.Tensor:
        saved[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield saved
