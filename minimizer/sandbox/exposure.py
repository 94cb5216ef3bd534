"""Refuses to start a service whose own files are in folders that every script can read, where no sandbox would protect
them.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from minimizer.errors import InvalidOption, MissingTool
from minimizer.sandbox.bubblewrap import SYSTEM_FOLDERS
from minimizer.sandbox.interpreter import runtime_paths
from minimizer.settings import Settings

DESCRIPTORS = Path("/proc/self/fd")


@dataclass(frozen=True)
class _Private:
    what: str
    path: Path
    remedy: str


def refuse_exposed(settings: Settings, interpreters: Iterable[Path]) -> None:
    """Check the places of the database, the queue, this process's logs and the jobs' folders.

    Does nothing with the sandbox off and access control, too. With access control on, scripts run in the sandbox whatever its settings.

    Args:
        settings: the service's settings.
        interpreters: all interpreters that scripts may run in.

    Raises:
        InvalidOption: one of these places can be read by every script; the message says which, and what to do.
    """
    if settings.sandbox == "off" and settings.access == "off":
        return
    shown = [*map(Path, SYSTEM_FOLDERS)]
    for python in interpreters:
        try:
            shown += runtime_paths(python)
        except MissingTool:  # a worker reports that when it checks its interpreters
            continue
    resolved = {folder.resolve() for folder in shown if folder.is_dir()}
    for private in _private(settings):
        path = private.path.resolve()
        if above := next((folder for folder in (path, *path.parents) if folder in resolved), None):
            raise InvalidOption(
                f"{private.what} ({path}) lies in {above}, which every script can read. {private.remedy}"
            )


def _private(settings: Settings) -> Iterator[_Private]:
    elsewhere = "Name another folder in MINIMIZER_DATA_DIR."
    if settings.database_url is None or settings.broker_url is None:
        yield _Private("The data folder", settings.data_dir, elsewhere)
    kind, _, file = (settings.database_url or "").partition(":///")
    if kind.startswith("sqlite") and file:
        yield _Private("The database", Path(file.partition("?")[0]), "Name another file in MINIMIZER_DATABASE_URL.")
    yield _Private("The folder of running jobs", Path(tempfile.gettempdir()), "Name another folder in TMPDIR.")
    for descriptor in ("1", "2"):
        link = DESCRIPTORS / descriptor
        try:
            if stat.S_ISREG(link.stat().st_mode):
                yield _Private("The log", link.readlink(), "Write it to another place.")
        except OSError:  # the descriptor is closed
            continue
