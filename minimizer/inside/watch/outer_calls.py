"""Counts the outermost calls of compiled code: of ``torch.compile``'s results, without nested ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..compiler.entries import at_entries


class OuterCalls:
    """Hooks the wrappers that ``torch.compile`` returns, for the rest of this process; all threads count."""

    def __init__(self) -> None:
        self.count = 0
        self._thread = threading.local()
        at_entries(self._enter)

    def _enter(self) -> Callable[[], None]:
        depth = getattr(self._thread, "depth", 0)
        self.count += depth == 0
        self._thread.depth = depth + 1
        return self._leave

    def _leave(self) -> None:
        self._thread.depth -= 1
