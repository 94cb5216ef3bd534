"""The tensors of a trace by number: the script's name for each, and which of them share a storage."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakTensorKeyDictionary

from ..values.snapshot import has_plain_storage

RESERVED = frozenset(
    [
        "torch",
        "F",
        "sys",
        "math",
        "data",
        "contextlib",
        "functools",
        "operator",
        "Path",
        "program",
        "base",
        *dir(builtins),
    ]
)
"""Names that the written program itself uses."""
GRAPH = re.compile(r"graph_\d+")
MOST_NAME = 200
"""Most characters of a name; a module path may exceed it."""
MOST_SEARCHES = 64
"""Most searches for the modules of a script, each of which goes through all of their parameters."""
MOST_LOCALS = 200
"""Most local variables of a function to search for a tensor's name."""
UNNAMED = "t"


class Names:
    """Numbers tensors in the order of first use, without keeping them alive.

    A tensor has the name of the script's variable that holds it when it is used, or its path in a module; else ``t``.
    """

    def __init__(self) -> None:
        self._numbers = WeakTensorKeyDictionary()
        self._wanted: list[str] = []
        """The preferred name of each; empty if unknown so far."""
        self.storages: list[int] = []
        """The number of each tensor's storage at its last event; tensors with the same one share memory."""
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}
        """Storages by address. A weak reference keeps the address from being given to another storage."""
        self._count = 0
        self._paths = WeakTensorKeyDictionary()
        self._searches = 0

    def __len__(self) -> int:
        return len(self._wanted)

    def number(self, tensor: Tensor) -> int | None:
        """The number of a tensor; None for a new one."""
        found: int | None = self._numbers.get(tensor)
        return found

    def add(self, tensor: Tensor) -> int:
        """Number a tensor that is new, or has another storage than before."""
        number = self.number(tensor)
        if number is None:
            number = self._numbers[tensor] = self.reserve()
        self.storages[number] = self._storage(tensor)
        return number

    def forget(self, tensor: Tensor) -> None:
        """Treat a tensor as new from now on; its number is not reused."""
        del self._numbers[tensor]

    def reserve(self, wanted: str = "") -> int:
        """A number for a value that is no tensor, such as a generator."""
        self._wanted.append(wanted)
        self._count += 1
        self.storages.append(-self._count)
        return len(self._wanted) - 1

    def living(self) -> Iterator[tuple[Tensor, int]]:
        """The numbered tensors that still exist."""
        yield from list(self._numbers.items())

    def sharing(self, tensor: Tensor) -> bool:
        """Whether an unnumbered tensor shares memory with a known storage."""
        if not has_plain_storage(tensor):
            return False
        known = self._known.get(tensor.untyped_storage()._cdata)
        return known is not None and not known[0].expired()

    def storage_of(self, tensor: Tensor) -> int:
        """The number of a tensor's current storage, which is known."""
        return self._known[tensor.untyped_storage()._cdata][1]

    def _storage(self, tensor: Tensor) -> int:
        if not has_plain_storage(tensor):
            self._count += 1
            return -self._count
        storage = tensor.untyped_storage()
        known = self._known.get(storage._cdata)
        if known is None or known[0].expired():
            self._count += 1
            known = self._known[storage._cdata] = StorageWeakRef(storage), self._count
        return known[1]

    # names of the script -------------------------------------------------------------------------------------------------

    def look(self, tensor: Tensor, frames: list[FrameType]) -> None:
        """Find the script's name for a numbered tensor without one, in the functions that use it now, innermost first."""
        number = self.number(tensor)
        if number is None or self._wanted[number]:
            return
        self._wanted[number] = self._paths.get(tensor) or self._local(tensor, frames)
        if not self._wanted[number] and (
            isinstance(tensor, torch.nn.Parameter) or (tensor.is_leaf and tensor.grad is not None)
        ):
            self._search(frames)
            self._wanted[number] = self._paths.get(tensor) or ""

    def call(self, number: int, other: int, suffix: str) -> None:
        """Name a value after another, if that has a name of the script's."""
        if self._wanted[other] and not self._wanted[number]:
            self._wanted[number] = f"{self._wanted[other]}_{suffix}"

    def look_for_state(self, tensors: list[Tensor], frames: list[FrameType]) -> None:
        """Find the paths of parameters and buffers among the inputs of a graph."""
        if any(tensor not in self._paths and self._is_unnamed(tensor) for tensor in tensors):
            self._search(frames)

    def final(self, functions: Iterable[str] = ()) -> list[str]:
        """A unique name for each number, different from those of all functions in the program other than the graphs'."""
        taken = {*RESERVED, *functions}
        used: dict[str, int] = {}
        names = []
        for wanted in self._wanted:
            base = (wanted or UNNAMED)[:MOST_NAME]
            name = base
            while name in taken or GRAPH.fullmatch(name):
                used[base] = used.get(base, 0) + 1
                name = f"{base}_{used[base]}"
            taken.add(name)
            names.append(name)
        return names

    def _is_unnamed(self, tensor: Tensor) -> bool:
        number = self.number(tensor)
        return number is None or not self._wanted[number]

    def _local(self, tensor: Tensor, frames: list[FrameType]) -> str:
        for frame in frames:
            held = frame.f_locals
            if len(held) <= MOST_LOCALS:
                found = next((name for name, value in held.items() if value is tensor), "")
                if found:
                    return identifier(found)
        return ""

    def _search(self, frames: list[FrameType]) -> None:
        """Name all tensors of the modules held by the script's functions by their paths."""
        if self._searches >= MOST_SEARCHES:
            return
        self._searches += 1
        scopes: list[dict[str, Any]] = [dict(frame.f_locals) for frame in frames]
        scopes += [frame.f_globals for frame in frames[-1:]]
        modules: dict[int, tuple[str, torch.nn.Module]] = {}
        for scope in scopes:
            for name, value in list(scope.items()):
                if type(value).__module__.startswith("torch._dynamo"):  # a wrapper of torch.compile
                    value = getattr(value, "_orig_mod", None)
                if isinstance(value, torch.nn.Module):
                    modules.setdefault(id(value), (name, value))
        several = len(modules) > 1
        for name, module in modules.values():
            for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
                if tensor not in self._paths:
                    self._paths[tensor] = identifier(f"{name}.{path}" if several and name != "self" else path)


def identifier(name: str) -> str:
    """A Python identifier made from another name, such as a path."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or UNNAMED
    return f"_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text
