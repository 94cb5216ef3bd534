"""The tensors of a trace by number: the name that the script has for each, and which share a storage."""

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
"""Names that the written program uses itself."""
GRAPH = re.compile(r"graph_\d+")
MOST_NAME = 200
"""Characters of the longest name, which a path of modules may exceed."""
MOST_SEARCHES = 64
"""Searches for the modules of a script, each of which goes through all of their parameters."""
MOST_LOCALS = 200
"""Local names of a function that are looked at for that of a tensor."""
UNNAMED = "t"


class Names:
    """Numbers tensors in the order in which they are met, without keeping them alive.

    A tensor has the name of the script's variable that holds it when it is used, or its path in a module; else ``t``.
    """

    def __init__(self) -> None:
        self._numbers = WeakTensorKeyDictionary()
        self._wanted: list[str] = []
        """The name that each should have; empty where none is known yet."""
        self.storages: list[int] = []
        """The number of each tensor's storage, as of its last event; tensors with the same one share memory."""
        self._known: dict[int, tuple[StorageWeakRef, int]] = {}
        """Storages by address. A weak reference keeps the address from being given to another storage."""
        self._count = 0
        self._paths = WeakTensorKeyDictionary()
        self._searches = 0

    def __len__(self) -> int:
        return len(self._wanted)

    def number(self, tensor: Tensor) -> int | None:
        """The number of a tensor; None for one that was not met yet."""
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
        """Take a tensor for one that was not met; its number is not given again."""
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
        """Whether a tensor that is not numbered shares its memory with a storage that is known."""
        if not has_plain_storage(tensor):
            return False
        known = self._known.get(tensor.untyped_storage()._cdata)
        return known is not None and not known[0].expired()

    def storage_of(self, tensor: Tensor) -> int:
        """The number of the storage that a tensor has now, which is known."""
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
        """Find the script's name for a numbered tensor that has none yet, in the functions that use it now, innermost first."""
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
        """Name a value after another, where that has a name of the script's."""
        if self._wanted[other] and not self._wanted[number]:
            self._wanted[number] = f"{self._wanted[other]}_{suffix}"

    def look_for_state(self, tensors: list[Tensor], frames: list[FrameType]) -> None:
        """Find the paths of parameters and buffers among the inputs of a graph."""
        if any(tensor not in self._paths and self._is_unnamed(tensor) for tensor in tensors):
            self._search(frames)

    def final(self, functions: Iterable[str] = ()) -> list[str]:
        """A name for each number, no two the same, and none of the functions that the program has beside those of its graphs."""
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
        """Give all tensors of the modules that the script's functions hold their paths as names."""
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
    """A name of Python's made of another, such as a path."""
    text = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or UNNAMED
    return f"_{text}" if text[0].isdigit() or keyword.iskeyword(text) else text
