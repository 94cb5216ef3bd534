"""The throw-away folder of a job: hostile code writes into it, so its disk is watched, and it goes whatever is in it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

from minimizer.errors import BudgetExceeded

LEAST_FREE = 1 << 30
"""Bytes that a job must leave free on the disk."""
LEAST_FILES = 10_000
"""Files and folders that must still fit on it."""
LOOK_SECONDS = 1.0


PREFIX = "minimizer-"
LOCK = "lock"
"""Locked as long as the process lives that the folder is for. The script does not see it: its folders lie beside it."""


class Scratch:
    """A new folder that is removed on `remove`, or by the next one that is made if its process is killed before."""

    def __init__(self, least_free: int = LEAST_FREE, least_files: int = LEAST_FILES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = os.open(self.path / f".{LOCK}", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.path / f".{LOCK}").rename(self.path / LOCK)  # seen only now that it is held
        _remove_abandoned(self.path.parent)
        self._least_free, self._least_files = least_free, least_files
        self._looked = 0.0

    def watch(self) -> None:
        """Look at the disk, at most once a second. The sandbox bounds a file's size, but not how many there are.

        Raises:
            BudgetExceeded: too little is free.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        free = shutil.disk_usage(self.path).free
        if free < self._least_free:
            raise BudgetExceeded(
                f"{free >> 20} MiB are free on the disk of {self.path.parent}, less than the {self._least_free >> 20} MiB that a job "
                "must leave"
            )
        disk = os.statvfs(self.path)
        if disk.f_files and disk.f_favail < self._least_files:  # some file systems have no such bound, and say 0
            raise BudgetExceeded(
                f"the disk of {self.path.parent} has room for {disk.f_favail:,} files more, less than the {self._least_files:,} that a "
                "job must leave"
            )

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove(self.path)
        os.close(self._lock)


def _remove_abandoned(folder: Path) -> None:
    """Remove the scratch folders of processes that have died."""
    for lock in folder.glob(f"{PREFIX}*/{LOCK}"):
        try:
            place = lock.parent.lstat()
            if not stat.S_ISDIR(place.st_mode) or place.st_uid != os.getuid():
                continue
            held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # somebody else's, or gone by now
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(lock.parent)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(held)


def remove(folder: Path) -> None:
    """Remove a folder that a script has written to, also where it took our permissions away or nested folders a thousand deep.

    By the system's own programs, since ``shutil.rmtree`` gives up at both.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
