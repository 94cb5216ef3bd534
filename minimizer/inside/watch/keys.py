"""Keys of calls: two calls with the same key run the same code under the same conditions, and differ in their values
only.

A key consists of the graph, the module instance, a bucket of symbolic sizes (by powers of two, with 0 and 1 separate),
and two facts that Dynamo does not guard: the inputs' addresses modulo 64 bytes, which vectorised kernels depend on, and
which inputs overlap. Strides, ``requires_grad`` and grad mode are guarded, so they are already part of the graph.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from typing import Any

import torch

from ..values.snapshot import has_plain_storage
from .captured import CapturedGraph
from .instances import Instances

MOST_CALLS = 200_000
"""Most calls whose key is stored, over all graphs, to bound memory; later calls are counted, but cannot be planned."""
_ALIGNED = 64
"""Bytes; the alignment that vectorised kernels depend on."""


class Keys:
    """The keys of the calls of a run, as numbers in the order of their first call."""

    def __init__(self) -> None:
        self.instances = Instances()
        self._numbers: dict[Hashable, int] = {}
        self._times: list[int] = []
        """Number of calls of each key."""
        self._instances: list[int | None] = []
        """The instance of each key."""
        self._kept = 0
        self.of_graph: list[array[int]] = []
        """For each graph, the keys of its calls in order."""

    def take(self, graph: CapturedGraph, args: Sequence[Any]) -> tuple[int, int]:
        """Count a call before it is made.

        Returns its key, and the number of calls of that key so far, including this one.
        """
        places = graph.state_places
        instance = self.instances.number([args[place] for place in places if place < len(args)], graph.state_owner)
        seen = _circumstances([arg for place, arg in enumerate(args) if place not in places])
        number = self._numbers.setdefault((graph.index, instance, seen), len(self._times))
        if number == len(self._times):
            self._times.append(0)
            self._instances.append(instance)
        self._times[number] += 1
        while len(self.of_graph) <= graph.index:
            self.of_graph.append(array("I"))
        if self._kept < MOST_CALLS:
            self.of_graph[graph.index].append(number)
            self._kept += 1
        return number, self._times[number]

    def up_to(self, times: int) -> int:
        """Number of calls made, counting at most ``times`` of each key."""
        return sum(min(times, made) for made in self._times)

    def name(self, key: int | None) -> str:
        """The path of a key's module instance; empty if unknown, or for the root itself."""
        instance = None if key is None else self._instances[key]
        names = self.instances.names
        return names[instance] if instance is not None and instance < len(names) else ""


def _circumstances(args: Sequence[Any]) -> Hashable:
    sizes = tuple(_bucket(arg) for arg in args if isinstance(arg, int))
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and has_plain_storage(arg)]
    with torch._C.DisableTorchFunctionSubclass():
        return sizes, tuple(tensor.data_ptr() % _ALIGNED for tensor in tensors), _overlaps(tensors)


def _bucket(size: int) -> int:
    return size if size <= 1 else size.bit_length() + 1


def _overlaps(tensors: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    """The pairs of tensors, by position, whose address ranges overlap."""
    if len(tensors) < 2:
        return ()
    spans = sorted((tensor.data_ptr(), place) for place, tensor in enumerate(tensors) if tensor.numel())
    found, open_ = [], list[tuple[int, int]]()
    for begin, place in spans:
        open_ = [(end, other) for end, other in open_ if end > begin]
        found += [(min(place, other), max(place, other)) for _, other in open_]
        open_.append((begin + _extent(tensors[place]), place))
    return tuple(sorted(found))


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the start of the first element to the end of the last."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (steps + 1) * tensor.element_size()
