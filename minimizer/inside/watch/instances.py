"""Module instances: which of several equal modules a call of a shared graph belongs to, and where that one lies in the model.

Equal layers that are compiled one by one share one compiled graph, and each brings its own parameters. The instance is the
``self`` of the compiled frame: what FSDP does to parameters, or freezing, changes nothing there. A compiled function has none; the
parameters and buffers that the graph takes then stand for it. Both are held weakly, as nothing may live longer for our sake.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.nn import Module

from ..graph.graphs import WRAPPED, WRAPPERS

MOST_INSTANCES = 100_000
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_WRAPPERS = (_OURS, os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep)


class Instances:
    """Numbers the instances that graphs are called for, in the order of their first call."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[weakref.ref[Any], int]] = {}
        """By identity, which is given out anew once an object is gone: hence a reference to tell by, and the number."""
        self.names: list[str] = []
        """Where each lies, from the root of the model; empty where that is not known."""

    def number(self, tensors: Sequence[torch.Tensor], within: str = "") -> int | None:
        """The number of the instance that is called now; None where a graph belongs to none.

        Args:
            tensors: the parameters and buffers that the graph takes.
            within: where the first of them lies, from what was compiled.
        """
        frame = _compiled_frame()
        owner = frame.f_locals.get("self") if frame is not None else None
        objects = [owner] if isinstance(owner, Module) else tensors
        key = tuple(map(id, objects))
        if not key:
            return None
        known = self._known.get(key)
        if known is not None and known[0]() is objects[0]:
            return known[1]
        if len(self.names) >= MOST_INSTANCES:
            return MOST_INSTANCES
        self._known[key] = weakref.ref(objects[0]), len(self.names)
        name = _name(objects[0], frame)
        self.names.append(name if isinstance(owner, Module) else _above(name, within))
        return len(self.names) - 1


def _compiled_frame() -> FrameType | None:
    """The frame that Dynamo has compiled, and which calls the graph."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_WRAPPERS):
        frame = frame.f_back
    return frame


def _name(what: Module | torch.Tensor, frame: FrameType | None) -> str:
    """The path of a module, or of the module that owns a parameter, from the first root in which it lies."""
    for root in _roots(frame):
        for path, module in root.named_modules():
            if module is what or any(what is own for own in _own(module)):
                return shown_path(root, path)
    return ""


def _above(name: str, within: str) -> str:
    """Where what was compiled lies, if what is ``within`` of it has this name; empty where the two do not fit.

    A function that is given a parameter by itself, as the step of an optimizer is, has nothing ``within``: it stands for the owner.
    """
    if not within:
        return name
    return name.removesuffix(within).rstrip(".") if f".{name}".endswith(f".{within}") else ""


def shown_path(root: Module, path: str) -> str:
    """A path without the steps into what only wraps a module: for the compiler, ranks, shards, or checkpoints."""
    shown: list[str] = []
    module: Any = root
    for step in filter(None, path.split(".")):
        if step not in WRAPPED and not (step == "module" and type(module).__name__ in WRAPPERS):
            shown.append(step)
        module = getattr(module, step, None)
    return ".".join(shown)


def _own(module: Module) -> Iterator[Any]:
    yield from module._parameters.values()
    yield from module._buffers.values()


def _roots(frame: FrameType | None) -> Iterator[Module]:
    """Where a model may begin: the outermost module that is ``self`` on the caller's stack, else a global of the script."""
    outermost = None
    while frame is not None:
        owner = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(owner, Module):
            outermost = owner
        frame = frame.f_back
    if outermost is not None:
        yield outermost
    yield from [value for value in list(vars(sys.modules["__main__"]).values()) if isinstance(value, Module)]
