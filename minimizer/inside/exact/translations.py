"""Watches Dynamo's translations: the number of frames, the globals installed meanwhile, and the owners of the
functions.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch._dynamo import convert_frame, symbolic_convert

from ..hooks import required

OURS = ("torch", "minimizer", __name__.partition(".")[0])
"""Packages whose modules are never looked at as the script's own; this package has another name in the child."""
MOST_PACKAGES = 200
"""Most modules of packages to look at."""


class Translations:
    """Dynamo's translations in this process since `watch`."""

    def __init__(self) -> None:
        self.frames = 0
        """The number of frames that it got; counted here, since Dynamo's own counters are off in exact runs."""
        self.installed: set[tuple[int, str]] = set()
        """Globals that it put into a script's modules for its own code: identity of the scope, and name.

        Not all names reveal this: the constant result of ``f`` is ``f_0``.
        """
        self._modules: dict[str, None] = {}
        """Names of the modules whose functions it has translated, called or inlined."""
        self._depth = 0

    def is_under_way(self) -> bool:
        """Whether Dynamo translates a frame now."""
        return self._depth > 0

    def watch(self, during: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext) -> None:
        """Start to watch, for the rest of this process. ``during``: creates the context in which Dynamo translates.

        Raises:
            MissingHook: this torch has no such function.
        """
        original = required(convert_frame, "_compile")
        self._watch_inlining()

        @functools.wraps(original)
        def compile_(code: types.CodeType, globals: dict[str, object], *args: Any, **kwargs: Any) -> Any:
            self.frames += 1
            self._modules[str(globals.get("__name__"))] = None
            before = set(globals)
            self._depth += 1
            try:
                with during():
                    return original(code, globals, *args, **kwargs)
            finally:
                self._depth -= 1
                self.installed.update((id(globals), name) for name in globals.keys() - before)

        convert_frame._compile = compile_

    def _watch_inlining(self) -> None:
        inliner: Any = symbolic_convert.InliningInstructionTranslator
        required(inliner, "inline_call")
        inline: Any = vars(inliner)["inline_call"]

        @functools.wraps(inline.__func__)
        def inline_call(cls: Any, parent: Any, func: Any, *args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(Exception):  # not everything inlined has globals
                self._modules[str(func.get_globals().get("__name__"))] = None
            return inline.__func__(cls, parent, func, *args, **kwargs)

        inliner.inline_call = classmethod(inline_call)

    def packages(self, is_own: Callable[[str], bool]) -> list[str]:
        """Modules whose functions were translated and that belong neither to the script, nor to torch, nor to the
        standard library.
        """
        library = os.path.dirname(os.__file__) + os.sep
        found = []
        for name in self._modules:
            file = str(vars(sys.modules[name]).get("__file__") or "") if is_module(name) else ""
            is_of_language = file.startswith(library) and "-packages" + os.sep not in file
            if file and name != "__main__" and not (is_own(file) or is_of_language or name.partition(".")[0] in OURS):
                found.append(name)
        return sorted(found)[:MOST_PACKAGES]


def is_module(name: str) -> bool:
    """Whether `sys.modules` holds a module by this name, and not some other object."""
    return isinstance(sys.modules.get(name), types.ModuleType)
