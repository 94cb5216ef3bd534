"""Records what functions passed to the compiler write while the compiler runs them, any number of times.

Fake kernels, functions in graphs, pytree nodes and the methods with which the compiler unwraps a tensor subclass run
while Dynamo compiles. A change between entry and return of one of them, seen by two walks over the script's state, is
due to the compiler; no other change is.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
from torch._library.custom_ops import CustomOpDef
from torch.utils import _pytree

from .leaves import Entry

METHODS = (
    "__torch_dispatch__",
    "__tensor_flatten__",
    "__tensor_unflatten__",
    "__coerce_tangent_metadata__",
    "__coerce_same_metadata_as_tangent__",
)
"""Methods of a tensor subclass that the compiler runs by itself."""
GIVEN_TO: tuple[tuple[Any, str], ...] = (
    (torch.library, "register_fake"), (torch.library, "impl_abstract"), (torch.library, "register_autograd"),
    (CustomOpDef, "register_fake"), (CustomOpDef, "register_autograd"),
    (torch.compiler, "allow_in_graph"), (torch._dynamo, "allow_in_graph"), (torch._dynamo, "nonstrict_trace"),
    (torch.compiler, "assume_constant_result"), (torch._dynamo, "assume_constant_result"),
    (_pytree, "register_pytree_node"), (_pytree, "_register_pytree_node"),
)  # fmt: skip
"""Functions, by module or class, through which a script passes functions that the compiler runs by itself."""
MOST_CALLS = 200
"""Most calls of such functions around which the state is looked at."""


class CompilerWrites:
    """Watches the functions that the script passes to the compiler, for the rest of this process.

    ``state``: a walk over everything that the script can see.
    """

    def __init__(self, state: Callable[[], dict[str, Entry]]) -> None:
        self._state = state
        self._codes: dict[types.CodeType, str] = {}
        self._depth = self._calls = 0
        self._before: dict[str, Entry] = {}
        self.paths: dict[str, str] = {}
        """The written paths, with the function that wrote each."""
        for owner, name in GIVEN_TO:
            original = getattr(owner, name, None)
            if original is not None:
                setattr(owner, name, self._noting(original, name))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while Dynamo compiles."""
        before = sys.getprofile()
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _noting(self, original: Callable[..., Any], to: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def give(*args: Any, **kwargs: Any) -> Any:
            self._note([*args, *kwargs.values()], to)
            result = original(*args, **kwargs)
            if not isinstance(result, types.FunctionType) or getattr(result, "__code__", None) in self._codes:
                return result

            @functools.wraps(result)
            def decorator(*inner: Any, **rest: Any) -> Any:
                self._note([*inner, *rest.values()], to)
                return result(*inner, **rest)

            return decorator

        return give

    def _note(self, values: list[Any], to: str) -> None:
        self._codes.update({value.__code__: to for value in values if isinstance(value, types.FunctionType)})

    def _on_event(self, frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not (code in self._codes or code.co_name in METHODS):
            return
        if event == "call":
            self._depth += 1
            if self._depth == 1 and self._calls < MOST_CALLS:
                self._calls += 1
                self._before = self._walk()
        else:
            self._depth -= 1
            if self._depth == 0 and self._before:
                after, before, self._before = self._walk(), self._before, {}
                changed = (path for path in {**before, **after} if before.get(path) != after.get(path))
                self.paths.update(dict.fromkeys(changed, self._codes.get(code, code.co_name)))

    def _walk(self) -> dict[str, Entry]:
        sys.setprofile(None)
        try:
            return self._state()
        finally:
            sys.setprofile(self._on_event)
