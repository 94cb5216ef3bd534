"""The throw-away folder of a job: hostile code writes into it, so its disk is watched, and it goes whatever is in it."""

from __future__ import annotations

import os
import shutil
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


class Scratch:
    """A new folder that is removed on `remove`."""

    def __init__(self, least_free: int = LEAST_FREE, least_files: int = LEAST_FILES) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="minimizer-"))
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


def remove(folder: Path) -> None:
    """Remove a folder that a script has written to, also where it took our permissions away or nested folders a thousand deep.

    By the system's own programs, since ``shutil.rmtree`` gives up at both.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
