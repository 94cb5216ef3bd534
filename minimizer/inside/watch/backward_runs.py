"""Counts how often a script runs a backward, by any call and in any thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..values.backwards import around_backwards


class BackwardRuns:
    """Counts the backwards of this process from now on."""

    def __init__(self) -> None:
        self.count = 0
        around_backwards(self._counted)

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return original(*args, **kwargs)

        return run
