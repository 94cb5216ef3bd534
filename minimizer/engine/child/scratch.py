"""The throw-away folder of a job: hostile code writes into it, so its disk is watched, and it goes whatever is in it."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO

from minimizer.errors import DiskExceeded

LEAST_FREE = 1 << 30
"""Bytes that a job must leave free on the disk."""
LEAST_FILES = 10_000
"""Files and folders that must still fit on it."""
LOOK_SECONDS = 1.0


PREFIX = "minimizer-scratch-"
LOCK = "lock"
"""Names this machine, and is locked as long as the process lives that the folder is for. No script sees it."""


class Scratch:
    """A new folder that is removed on `remove`, or by the next one that is made if its process is killed before.

    What scripts may write to lies in folders below it.
    """

    def __init__(self, least_free: int = LEAST_FREE, least_files: int = LEAST_FILES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = _locked(self.path)
        if self._lock is not None:
            _remove_abandoned(self.path.parent)
        self._least_free, self._least_files = least_free, least_files
        self._looked = 0.0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def watch(self) -> None:
        """Look at the disk, at most once a second. The sandbox bounds a file's size, but not how many there are.

        Raises:
            DiskExceeded: too little is free.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        free = shutil.disk_usage(self.path).free
        if free < self._least_free:
            raise DiskExceeded(
                f"{free >> 20} MiB are free on the disk of {self.path.parent}, less than the {self._least_free >> 20} MiB that a job "
                "must leave"
            )
        disk = os.statvfs(self.path)
        if disk.f_files and disk.f_favail < self._least_files:  # some file systems have no such bound, and say 0
            raise DiskExceeded(
                f"the disk of {self.path.parent} has room for {disk.f_favail:,} files more, less than the {self._least_files:,} that a "
                "job must leave"
            )

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _locked(folder: Path) -> IO[str] | None:
    """The lock of a folder, held; ``None`` where the file system has none, and nobody will then remove what is left."""
    unseen = folder / f".{LOCK}"
    lock = unseen.open("x")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock.fileno(), socket.gethostname().encode())
    except OSError:
        lock.close()
        return None
    unseen.rename(folder / LOCK)
    return lock


def _remove_abandoned(folder: Path) -> None:
    """Remove the scratch folders of this machine's processes that have died. Locks of other machines need not be seen here."""
    for path in folder.glob(f"{PREFIX}*/{LOCK}"):
        try:
            place = path.parent.lstat()
            if not stat.S_ISDIR(place.st_mode) or place.st_uid != os.getuid():
                continue
            with path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if lock.read() == socket.gethostname():
                    remove(path.parent)
        except OSError:  # its process lives, or it is gone by now
            continue


def remove(folder: Path) -> None:
    """Remove a folder that a script has written to, also where it took our permissions away or nested folders a thousand deep.

    By the system's own programs, since ``shutil.rmtree`` gives up at both.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
