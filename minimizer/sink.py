"""Destinations of results: the engine writes to a sink, and does not know the implementation.

The command line uses a folder (`FolderSink`), the worker the database (``worker/sink.py``).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from minimizer.errors import InvalidOption
from minimizer.report.model import Report

Event = dict[str, Any]

REPROS = (*(f"repro{number}.{kind}" for number in ("", "-2", "-3") for kind in ("py", "zip")), "data.pt")
"""Files that show failures. If a run shows none, those of an earlier run in the same folder are removed."""


def require_apart(option: str, script: Path, folder: Path) -> None:
    """Refuse a folder in which a result would take the place of the script.

    Raises:
        InvalidOption: it is the script's own folder, and the script is called as a result is.
    """
    script = script.resolve()
    if script.name in REPROS and script.parent == folder.resolve():
        raise InvalidOption(f"{option} {folder} would put a result in the place of {script}; name another folder")


class Sink(Protocol):
    """The engine's interface to the outside world.

    Events may come from any thread, but one at a time.
    """

    def event(self, type_: str, **data: Any) -> None:
        """Tell of progress.

        ``type_`` is one of ``step``, ``progress``, ``failure``, ``culprit``, ``repro``, ``blame``, ``workaround``, ``note``.
        """

    def artifact(self, name: str, content: bytes) -> None:
        """Keep a result under a name such as ``repro.py``; a later one of the same name replaces it."""

    def discard(self, name: str) -> None:
        """Forget an artifact, if there is one of this name."""

    def earlier(self, name: str) -> bytes | None:
        """An artifact that an earlier attempt of the same job has kept; None if there is none."""

    def report(self, report: Report) -> None:
        """Keep the report so far; readers may look at it at any time."""

    def cancelled(self) -> bool:
        """Whether the job was asked to stop.

        Cheap: polled continuously, and an engine that stops polling counts as stuck.
        """

    def skipped(self) -> str | None:
        """The step that the owner asked to skip, None if there is none; it applies only while that step is running.

        Cheap, too.
        """


class FolderSink:
    """Writes artifacts into a folder, each one atomically, and passes events to a callback.

    Only files that it has written, in this run or in an earlier one, are ever discarded: the folder may hold the user's
    own files.
    """

    def __init__(self, folder: Path, on_event: Callable[[Event], None] = lambda event: None) -> None:
        self.folder = folder
        self._on_event = on_event
        folder.mkdir(parents=True, exist_ok=True)
        self._written = set(self._manifest.read_text().split("\n")) if self._manifest.exists() else set()

    @property
    def _manifest(self) -> Path:
        return self.folder / ".minimizer-files"

    def event(self, type_: str, **data: Any) -> None:
        event = {"type": type_, "time": round(time.time(), 3), **data}
        self._on_event(event)

    def artifact(self, name: str, content: bytes) -> None:
        target = self.folder / name
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".writing-")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
        if name not in self._written:
            self._written.add(name)
            self._manifest.write_text("\n".join(sorted(self._written)))

    def discard(self, name: str) -> None:
        if name in self._written:
            (self.folder / name).unlink(missing_ok=True)

    def earlier(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def report(self, report: Report) -> None:
        self.artifact("report.json", json.dumps(report.to_json(), indent=1).encode() + b"\n")

    def cancelled(self) -> bool:
        return False

    def skipped(self) -> str | None:
        return None


class Aside:
    """The sink of a job's separate record: keeps artifacts in memory until the job may take them over.

    It asks the job's own sink, ``outer``, whether to stop or to skip. ``tells``: types of events that are forwarded to
    it.
    """

    def __init__(self, outer: Sink, *, tells: frozenset[str] = frozenset()) -> None:
        self._outer, self._tells = outer, tells
        self.artifacts: dict[str, bytes] = {}

    @property
    def repros(self) -> dict[str, bytes]:
        """The files that show failures."""
        return {name: self.artifacts[name] for name in REPROS if name in self.artifacts}

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
        """Not stored: a separate record has no readers."""

    def cancelled(self) -> bool:
        return self._outer.cancelled()

    def skipped(self) -> str | None:
        return self._outer.skipped()
