"""Counts the bytes that a call of a graph saves for backward, without its arguments, which others hold.

For compiled code these are autograd's saved tensors. For eager it is every storage created in the call that outlives
it: an ``autograd.Function`` in a captured graph holds its values by means that autograd does not see. A result counts
on the side where autograd saves it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


def kept_in_eager(function: Callable[..., Any], args: Sequence[Any]) -> int:
    """The bytes of all storages that a call of eager leaves behind."""
    with _Made() as made, _saved() as saved:
        results = function(*args)
    gc.collect()  # objects held only by a reference cycle are no longer needed
    known = _storages([args, results]).keys() - (_alive(saved).keys() - _storages(args).keys())
    return sum(size for place, (alive, size) in made.storages.items() if not alive.expired() and place not in known)


def kept_compiled(function: Callable[..., Any], args: Sequence[Any]) -> int:
    """The bytes of all storages that autograd has saved when a compiled call returns."""
    with _saved() as saved:
        results = function(*args)  # held until counted
    known, alive = _storages(args), _alive(saved)
    del results
    return sum(size for place, size in alive.items() if place not in known)


@contextmanager
def _saved() -> Iterator[list[weakref.ref[torch.Tensor]]]:
    """Record the tensors that autograd saves inside."""
    saved: list[weakref.ref[torch.Tensor]] = []

    def pack(value: torch.Tensor) -> torch.Tensor:
        saved.append(weakref.ref(value))
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        yield saved


def _alive(saved: Sequence[weakref.ref[torch.Tensor]]) -> dict[int, int]:
    """The sizes of the storages that are still held, by address."""
    return _storages([value for one in saved if (value := one()) is not None])


class _Made(TorchDispatchMode):
    """Records the storages of all results of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in pytree.tree_leaves(result):
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                self.storages[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
        return result


def _storages(values: Any) -> dict[int, int]:
    """The sizes of the storages of all tensors, by address."""
    storages = (one.untyped_storage() for one in pytree.tree_leaves(values) if isinstance(one, torch.Tensor))
    return {one.data_ptr(): one.nbytes() for one in storages}
