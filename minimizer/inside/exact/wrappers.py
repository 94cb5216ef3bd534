"""The compiler left out, and looks of a script at the wrappers that ``torch.compile`` returns: by their names, by their class, by asking.

A script whose compiled code is right may still do something else for what it sees of a wrapper.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Collection
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import eval_frame

from ..wire import Message
from .reach import user_frames

BY_NAME = (
    "named_parameters", "named_buffers", "named_modules", "named_children", "modules", "children", "state_dict", "load_state_dict",
)  # fmt: skip
"""Methods of a wrapper that tell its names or its own place among the modules."""
OPTIMIZED = "OptimizedModule"
NAMES, CLASS, ASKED = "names", "class", "is_compiling"
"""Sorts of looks."""
MOST_GLANCES = 100
"""Looks, by sort and line, that are noted."""


def leave_out_compiler() -> None:
    """For the rest of this process ``torch.compile`` returns what it is given, and ``Module.compile`` does nothing."""
    torch.compile = torch.compiler.compile = _as_given
    torch.nn.Module.compile = _nothing  # type: ignore[method-assign]
    for entry in ("optimize", "optimize_assert"):
        setattr(torch._dynamo, entry, _optimizing_nothing)


def _as_given(model: Any = None, **_: Any) -> Any:
    return model if model is not None else lambda function: function


def _nothing(self: torch.nn.Module, *_: Any, **__: Any) -> None:
    """``Module.compile`` without a compiler."""


def _optimizing_nothing(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return lambda function: function


class Glances:
    """Notes from which lines of its own a script looks at wrappers; at those in ``through`` it sees what there is without them.

    A look is noted as ``sort file:line``.
    """

    def __init__(
        self, is_own: Callable[[str], bool], line_of: Callable[[types.FrameType], Message], through: Collection[str]
    ) -> None:
        self._is_own, self._line_of, self._through = is_own, line_of, frozenset(through)
        self.seen: dict[str, Message] = {}
        self.wrappers = 0

    def watch(self) -> None:
        """Watch the wrappers that are made in the rest of this process."""
        watched = self._watched(eval_frame.OptimizedModule)
        for module in (eval_frame, torch._dynamo):
            setattr(module, OPTIMIZED, watched)

    def sees_through(self, sort: str, frame: types.FrameType) -> bool:
        """Note a look from a frame; whether it is to see what there is without wrappers."""
        own = next(user_frames(frame, self._is_own), None)
        if own is None:
            return False
        key = f"{sort} {own.f_code.co_filename}:{own.f_lineno}"
        if key not in self.seen and len(self.seen) < MOST_GLANCES:
            self.seen[key] = {"key": key, "sort": sort, **self._line_of(own)}
        return key in self._through

    def _watched(self, wrapper: Any) -> Any:
        """The class of wrappers, whose instances tell when they are looked at."""

        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            self.wrappers += 1
            wrapper.__init__(this, *args, **kwargs)

        looks = {name: self._method(name, getattr(wrapper, name)) for name in BY_NAME}
        named = {"__module__": wrapper.__module__, "__qualname__": wrapper.__qualname__}
        return type(
            wrapper.__name__, (wrapper,), {**named, **looks, "__init__": init, "__class__": property(self._class)}
        )

    def _method(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def look(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self.sees_through(NAMES, sys._getframe(1)):
                return getattr(this._orig_mod, name)(*args, **kwargs)
            return original(this, *args, **kwargs)

        return look

    def _class(self, this: Any) -> type:
        asker = sys._getframe(1)
        is_direct = self._is_own(asker.f_code.co_filename)
        return type(this._orig_mod) if is_direct and self.sees_through(CLASS, asker) else type(this)
