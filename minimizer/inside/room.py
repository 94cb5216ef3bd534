"""The room of one run of a script: a fresh working folder, home, and folder for temporary files.

Rooms are made and removed inside the sandbox, so that links planted by a script cannot lead outside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence

REMOVE = 'chmod -R u+rwX -- "$@"; exec rm -rf --one-file-system -- "$@"'


def make(rooms: str) -> str | None:
    """Make a room under an unpredictable name; None if that fails, for instance because a script replaced the folder."""
    try:
        os.makedirs(rooms, exist_ok=True)  # an earlier script may have deleted it
        return tempfile.mkdtemp(prefix="run-", dir=rooms)
    except OSError:
        return None


def enter(room: str | None, origin: str) -> None:
    """Copy the files of ``origin`` into a room's working folder, and make it this process's working, home and temp
    folder.

    Raises:
        OSError: ``room`` is None, or the files cannot be copied.
    """
    if room is None:
        raise FileNotFoundError("no folder could be made for this run")
    places = {name: os.path.join(room, name) for name in ("work", "home", "tmp")}
    shutil.copytree(origin, places["work"], symlinks=True)
    os.mkdir(places["home"])
    os.mkdir(places["tmp"])
    os.environ.update(HOME=places["home"], TMPDIR=places["tmp"])
    tempfile.tempdir = None  # `tempfile` may have cached another folder
    os.chdir(places["work"])


def leave(room: str) -> None:
    """Remove a room in the background, including files that a script has made read-only."""
    _run("sh", "-c", '(chmod -R u+rwX -- "$1"; rm -rf -- "$1") &', "sh", room)


def clear(folders: Sequence[str]) -> None:
    """Remove the content of folders that all runs see, such as ``/tmp``; mounted file systems in them stay."""
    _run("find", *folders, "-xdev", "-mindepth", "1", "-delete")


def _run(*command: str) -> None:
    quiet = subprocess.DEVNULL
    with contextlib.suppress(OSError):  # if no process can be started, the files stay until the job ends
        subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=False)
