"""The throw-away folder of a job: hostile code writes into it, so its disk is watched, and it goes whatever is in it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from minimizer.errors import BudgetExceeded

LEAST_FREE = 1 << 30
"""Bytes that a job must leave free on the disk."""
LOOK_SECONDS = 1.0


class Scratch:
    """A new folder that is removed on `remove`."""

    def __init__(self, least_free: int = LEAST_FREE) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="minimizer-"))
        self._least_free = least_free
        self._looked = 0.0

    def watch(self) -> None:
        """Look at the disk, at most once a second. A file's size is bounded by the sandbox, the number of files is not.

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

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove(self.path)


def remove(folder: Path) -> None:
    """Remove a folder that a script has written to, also where it took our permissions away or nested folders a thousand deep.

    By the system's own programs, since ``shutil.rmtree`` gives up at both.
    """
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(folder)], stderr=subprocess.DEVNULL, check=False)
