"""The sink of a job within a job: holds artifacts back until the outer job decides to publish them."""

from __future__ import annotations

from typing import Any

from minimizer.report.model import Report
from minimizer.sink import Sink


class Aside:
    """Keeps artifacts in memory and asks ``outer`` whether to stop or to skip; ``tells``: event types passed on to it."""

    def __init__(self, outer: Sink, *, tells: frozenset[str] = frozenset()) -> None:
        self._outer, self._tells = outer, tells
        self.artifacts: dict[str, bytes] = {}

    def event(self, type_: str, **data: Any) -> None:
        if type_ in self._tells:
            self._outer.event(type_, **data)

    def artifact(self, name: str, content: bytes) -> None:
        self.artifacts[name] = content

    def discard(self, name: str) -> None:
        self.artifacts.pop(name, None)

    def earlier(self, name: str) -> bytes | None:
        return None

    def report(self, report: Report) -> None:
        """Ignored: the code that started the inner job owns its report."""

    def cancelled(self) -> bool:
        return self._outer.cancelled()

    def skipped(self) -> str | None:
        return self._outer.skipped()
