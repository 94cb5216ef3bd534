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
from collections.abc import Callable
from pathlib import Path
from typing import IO

from minimizer.errors import DiskExceeded, WorkerTrouble

LEAST_FREE = 1 << 30
"""Bytes that a job must leave free on the disk."""
LEAST_FILES = 10_000
"""Files and folders that must still fit on it."""
LOOK_SECONDS = 0.2


PREFIX = "minimizer-scratch-"
LOCK = "lock"
"""Names this machine, and is locked as long as the process lives that the folder is for. No script sees it."""


class Scratch:
    """A new folder that is removed on `remove`, or by the next one that is made if its process is killed before.

    What scripts may write to lies in folders below it.

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
        self._least_free, self._least_files = least_free, least_files
        self._looked = 0.0

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def watch(self, stop: Callable[[], None]) -> None:
        """Look at the disk, at most five times a second. The sandbox bounds a file's size, but not how many there are.

        ``stop`` ends whoever writes, before it is counted what they have written.

        Raises:
            DiskExceeded: too little is free, and what the job has written is what is missing.
            WorkerTrouble: too little would be free without the job as well.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        if why := why_full(self.path, self._least_free, self._least_files):
            stop()
            with_ours = _used(self.path)
            is_ours = not why_full(self.path, self._least_free, self._least_files, given_back=with_ours)
            raise DiskExceeded(why) if is_ours else WorkerTrouble(why)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove(self.path)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def why_full(
    folder: Path, least_free: int = LEAST_FREE, least_files: int = LEAST_FILES, *, given_back: tuple[int, int] = (0, 0)
) -> str:
    """What is missing on the disk of a folder for a job; the empty text where nothing is.

    Args:
        least_free, least_files: bytes, and files and folders, for which there must be room.
        given_back: as many of both count as free, too.
    """
    free = shutil.disk_usage(folder).free
    if free + given_back[0] < least_free:
        return f"{free >> 20} MiB are free on the disk of {folder.parent}, less than the {least_free >> 20} MiB that a job must leave"
    disk = os.statvfs(folder)
    if disk.f_files and disk.f_favail + given_back[1] < least_files:  # some file systems have no such bound, and say 0
        return f"the disk of {folder.parent} has room for {disk.f_favail:,} files more, less than the {least_files:,} that a job must leave"
    return ""


def _used(folder: Path) -> tuple[int, int]:
    """Bytes on the disk, and files and folders, below a folder, as far as they can be counted."""
    counts = []
    for unit in ("--block-size=1", "--inodes"):
        done = subprocess.run(["du", "-sx", unit, "--", str(folder)], capture_output=True, text=True, check=False)
        counts.append(int(done.stdout.split()[0]) if done.stdout.strip() else 0)
    return counts[0], counts[1]


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
