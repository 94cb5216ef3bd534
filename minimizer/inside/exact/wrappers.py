"""Leaves the compiler out, and records a script's looks at the wrappers of ``torch.compile``: by names, by class, by
query.

A script whose compiled code is right may still behave differently because of what it sees of a wrapper.
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

from ..hooks import required
from ..wire import Message
from .reach import user_frames

BY_NAME = (
    "named_parameters", "named_buffers", "named_modules", "named_children", "modules", "children", "state_dict", "load_state_dict",
)  # fmt: skip
"""Methods of a wrapper that reveal its names or its own place among the modules."""
OPTIMIZED = "OptimizedModule"
NAMES, CLASS, ASKED = "names", "class", "is_compiling"
"""Types of looks."""
MOST_GLANCES = 100
"""Most recorded looks, by type and line."""


def leave_out_compiler() -> None:
    """Make ``torch.compile`` return its argument, and ``Module.compile`` do nothing, for the rest of this process."""
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
    """Records the script's own lines that look at wrappers; looks in ``through`` see the object without its wrapper.

    A look is recorded as ``sort file:line``.
    """

    def __init__(
        self, is_own: Callable[[str], bool], line_of: Callable[[types.FrameType], Message], through: Collection[str]
    ) -> None:
        self._is_own, self._line_of, self._through = is_own, line_of, frozenset(through)
        self.seen: dict[str, Message] = {}
        self.wrappers = 0

    def watch(self) -> None:
        """Watch the wrappers created in the rest of this process."""
        watched = self._watched(required(eval_frame, OPTIMIZED))
        for module in (eval_frame, torch._dynamo):
            setattr(module, OPTIMIZED, watched)

    def sees_through(self, sort: str, frame: types.FrameType) -> bool:
        """Record a look from a frame; returns whether it sees the object without its wrapper."""
        own = next(user_frames(frame, self._is_own), None)
        if own is None:
            return False
        key = f"{sort} {own.f_code.co_filename}:{own.f_lineno}"
        if key not in self.seen and len(self.seen) < MOST_GLANCES:
            self.seen[key] = {"key": key, "sort": sort, **self._line_of(own)}
        return key in self._through

    def _watched(self, wrapper: Any) -> Any:
        """The class of wrappers, whose instances report looks at them."""

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
