"""Module instances: which of several equal modules a call of a shared graph belongs to, and its path in the model.

Equal layers that are compiled one by one share one compiled graph, and each passes its own parameters. The instance is
the ``self`` of the compiled frame, which neither FSDP nor freezing changes. A compiled function has no ``self``; it is
identified by the graph's parameter and buffer inputs. Both are held by weak references, so that we prolong no object's
life.
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

from ..graph.modules import WRAPPED, WRAPPERS

MOST_INSTANCES = 100_000
"""Most distinguished instances, to bound memory; all further ones share one number."""
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_WRAPPERS = (_OURS, os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep)


class Instances:
    """Numbers the module instances behind calls of graphs, in the order of their first call."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[weakref.ref[Any], int]] = {}
        """By ``id()``: a weak reference, since Python reuses ids of dead objects, and the instance's number."""
        self.names: list[str] = []
        """Path of each instance from the root of the model; empty if unknown."""

    def number(self, tensors: Sequence[torch.Tensor], within: str = "") -> int | None:
        """The number of the instance being called; None if the graph has neither ``self`` nor parameters nor buffers.

        Args:
            tensors: the graph's parameter and buffer inputs.
            within: path of the module that owns the first of them, relative to the compiled module.
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
    """The compiled frame that calls the graph: the first one on the stack that is not a wrapper of torch or of ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_WRAPPERS):
        frame = frame.f_back
    return frame


def _name(what: Module | torch.Tensor, frame: FrameType | None) -> str:
    """The path of a module, or of the module that owns a tensor, from the first root that contains it; empty if none does."""
    for root in _roots(frame):
        for path, module in root.named_modules():
            if module is what or any(what is own for own in _own(module)):
                return shown_path(root, path)
    return ""


def _above(name: str, within: str) -> str:
    """The path of the compiled module: ``name`` without the suffix ``within``; empty if ``name`` does not end with it.

    A function that takes a parameter itself, such as an optimizer's step, has an empty ``within`` and gets the owner's path.
    """
    if not within:
        return name
    return name.removesuffix(within).rstrip(".") if f".{name}".endswith(f".{within}") else ""


def shown_path(root: Module, path: str) -> str:
    """A module path without the steps into wrappers: ``torch.compile``'s, DDP's, FSDP's and those of checkpointing."""
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
    """Possible roots of a model: the outermost module that is ``self`` on the stack, then the script's global modules."""
    outermost = None
    while frame is not None:
        owner = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(owner, Module):
            outermost = owner
        frame = frame.f_back
    if outermost is not None:
        yield outermost
    yield from [value for value in list(vars(sys.modules["__main__"]).values()) if isinstance(value, Module)]
