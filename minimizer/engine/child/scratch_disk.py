"""The temporary folder of a job. Hostile code writes into it, so its disk use is watched and its removal is forced."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from minimizer.errors import DiskExceeded, WorkerTrouble

LEAST_FREE = 1 << 30
"""Bytes that a job must leave free on the disk."""
LEAST_FILES = 10_000
"""Files and folders (inodes) that a job must leave free on it."""
MUCH_SPACE, MANY_FILES = 256 << 20, 10_000
"""Bytes, and files and folders, of an ordinary job; a job with less has not filled the disk."""
LOOK_SECONDS = 0.2


PREFIX = "minimizer-scratch-"
LOCK = "lock"
"""File with this machine's name, locked for the lifetime of the process that made the folder. No script sees it."""


class Scratch:
    """A new folder, removed by `remove` or, if its process is killed first, when the next one is made.

    Scripts may write to folders below it, not to the folder itself.

    Raises:
        WorkerTrouble: it cannot be made.
    """

    def __init__(self, least_free: int = LEAST_FREE, least_files: int = LEAST_FILES) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        except OSError as error:
            raise WorkerTrouble(f"no folder can be made for a job: {error}") from None
        self._lock = _locked(self.path)
        if self._lock is not None:
            _remove_abandoned(self.path.parent)
        self._least = least_free, least_files
        self._found = _free(self.path)
        self._looked = 0.0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def watch(self, stop: Callable[[], None]) -> None:
        """Check the free space, at most every `LOOK_SECONDS`; the sandbox limits the size of a file, not their number.

        ``stop`` ends the job's processes before their files are counted.

        The job is at fault if it holds at least half of the space that was free when it began, and more than an
        ordinary job. Space freed meanwhile does not count: another job that filled the disk may be ended, and removed,
        at the same moment.

        Raises:
            DiskExceeded: too little is free, because of what the job has written.
            WorkerTrouble: too little is free, and not because of the job.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        free = _free(self.path)
        if why := _why_full(self.path, free, self._least):
            stop()
            counts = zip(free, self._least, self._found, _used(self.path), (MUCH_SPACE, MANY_FILES), strict=True)
            is_ours = any(
                left < least and used >= max((found - least) / 2, much) for left, least, found, used, much in counts
            )
            raise DiskExceeded(why) if is_ours else WorkerTrouble(why)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def why_full(folder: Path) -> str:
    """The reason why the disk of a folder has too little room for a job; empty if it has enough."""
    return _why_full(folder, _free(folder), (LEAST_FREE, LEAST_FILES))


def _why_full(folder: Path, free: tuple[int, int], least: tuple[int, int]) -> str:
    if free[0] < least[0]:
        return f"{free[0] >> 20} MiB are free on the disk of {folder.parent}, less than the {least[0] >> 20} MiB that a job must leave"
    if free[1] < least[1]:
        return f"the disk of {folder.parent} has room for {free[1]:,} files more, less than the {least[1]:,} that a job must leave"
    return ""


def _free(folder: Path) -> tuple[int, int]:
    """Free bytes, and free files and folders, on the disk of a folder."""
    disk = os.statvfs(folder)
    files = disk.f_favail if disk.f_files else sys.maxsize  # some file systems have no limit, and report 0
    return shutil.disk_usage(folder).free, files


def _used(folder: Path) -> tuple[int, int]:
    """Used bytes, and files and folders, below a folder, as far as they can be counted."""
    counts = []
    for unit in ("--block-size=1", "--inodes"):
        done = subprocess.run(["du", "-sx", unit, "--", str(folder)], capture_output=True, text=True, check=False)
        counts.append(int(done.stdout.split()[0]) if done.stdout.strip() else 0)
    return counts[0], counts[1]


def _locked(folder: Path) -> IO[str] | None:
    """Lock a folder; ``None`` if the file system has no locks, so that an abandoned folder stays."""
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
    """Remove the scratch folders of dead processes of this machine; locks of other machines may be invisible here."""
    for path in folder.glob(f"{PREFIX}*/{LOCK}"):
        try:
            place = path.parent.lstat()
            if not stat.S_ISDIR(place.st_mode) or place.st_uid != os.getuid():
                continue
            with path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if lock.read() == socket.gethostname():
                    remove(path.parent)
        except OSError:  # its process lives, or the folder is already gone
            continue


def remove(folder: Path) -> None:
    """Remove a folder written by a script, even if permissions were removed or folders nested a thousand deep.

    Uses the system's ``rm``, and ``chmod`` if that fails, since ``shutil.rmtree`` gives up on both.
    """
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
        if not os.path.lexists(folder):
            return
