"""The room of one run of a script: a working folder, a home and a folder for temporary files that no other run has written to.

All of it happens inside the sandbox: what a script puts in the way of it can lead nowhere else.
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
    """Make a room, under a name that nobody could have taken before; None where a script is in the way."""
    try:
        os.makedirs(rooms, exist_ok=True)  # a script may have tidied up
        return tempfile.mkdtemp(prefix="run-", dir=rooms)
    except OSError:
        return None


def enter(room: str | None, origin: str) -> None:
    """Lay the files of ``origin`` out in a room's working folder, and make this process live there.

    Raises:
        OSError: there is no room.
    """
    if room is None:
        raise FileNotFoundError("no folder could be made for this run")
    places = {name: os.path.join(room, name) for name in ("work", "home", "tmp")}
    shutil.copytree(origin, places["work"], symlinks=True)
    os.mkdir(places["home"])
    os.mkdir(places["tmp"])
    os.environ.update(HOME=places["home"], TMPDIR=places["tmp"])
    tempfile.tempdir = None  # the process may have asked for it before
    os.chdir(places["work"])


def leave(room: str) -> None:
    """Remove a room, whatever a script has put there, without waiting for that."""
    _run("sh", "-c", '(chmod -R u+rwX -- "$1"; rm -rf -- "$1") &', "sh", room)


def clear(folders: Sequence[str]) -> None:
    """Remove what lies in folders that all runs see, such as ``/tmp``; what is mounted there stays."""
    _run("find", *folders, "-xdev", "-mindepth", "1", "-delete")


def _run(*command: str) -> None:
    quiet = subprocess.DEVNULL
    with contextlib.suppress(OSError):  # where no process can be started, all stays until the job ends
        subprocess.run(command, stdin=quiet, stdout=quiet, stderr=quiet, check=False)
