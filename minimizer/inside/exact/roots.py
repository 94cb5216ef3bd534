"""The roots of a look: globals of the script and of its own modules, and locals of its functions."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .reach import locals_of, user_frames
from .translations import Translations, is_module


class Roots:
    """Finds the roots of looks.

    Args:
        is_own: whether a file is the script's own.
        modules: names of modules of packages whose globals and classes are looked at like the script's own.
        translations: knows the globals that Dynamo has installed, which are left out.
    """

    def __init__(self, is_own: Callable[[str], bool], modules: Sequence[str], translations: Translations) -> None:
        self._is_own, self._further, self._translations = is_own, frozenset(modules), translations
        self._known: set[str] = set()
        """Names of the modules imported at the last look."""
        self._own: list[str] = []
        self._further_files: set[str] = set()

    def groups(self, frame: types.FrameType | None) -> Iterator[list[tuple[str, Any]]]:
        """The globals, then the locals of each function of the script from ``frame`` outwards, as (path, value).

        Each group is walked before the next one, so that an object has its path in the first group that leads to it.
        """
        yield list(self._globals())
        for user in user_frames(frame, self._is_own):
            name = getattr(user.f_code, "co_qualname", user.f_code.co_name)  # since Python 3.11
            yield [(f"{name}.<locals>.{local}", value) for local, value in locals_of(user).items()]

    def is_entered(self, file: str) -> bool:
        """Whether a file's definitions are looked at like the script's own."""
        return file in self._further_files or self._is_own(file)

    def _globals(self) -> Iterator[tuple[str, Any]]:
        """Globals of the script, then of its own modules."""
        for name in sorted(sys.modules.keys() - self._known):
            self._known.add(name)
            file = str(vars(sys.modules[name]).get("__file__") or "") if is_module(name) else ""
            if name in self._further:
                self._further_files.add(file)
            if name in self._further or self._is_own(file):
                self._own.append(name)
        for name in ["__main__", *(name for name in self._own if name in sys.modules and name != "__main__")]:
            front = "" if name == "__main__" else f"{name}."
            scope = vars(sys.modules[name])
            for key, value in list(scope.items()):
                is_installed = (id(scope), key) in self._translations.installed
                if not (key.startswith("__") or isinstance(value, types.ModuleType) or is_installed):
                    yield front + key, value
