"""A sink of a job within a job: what it shows is held back until it is known to be worth it."""

from __future__ import annotations

from typing import Any

from minimizer.report.model import Report
from minimizer.sink import Sink


class Aside:
    """Keeps artifacts to itself and asks ``outer`` whether to stop or to skip; ``tells``: the events that pass."""

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
        """Only the last one counts, and whoever began the inner job has that."""

    def cancelled(self) -> bool:
        return self._outer.cancelled()

    def skipped(self) -> str | None:
        return self._outer.skipped()
