"""Reading what hostile code has written, without being led elsewhere or filled up."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def tail(path: Path, limit: int) -> str:
    """The last ``limit`` bytes of a file of ours that took a child's output, and may have grown as large as that liked."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.read(limit).decode("utf-8", "replace")


def read_untrusted(root: Path, relative: Path, limit: int) -> bytes | None:
    """The first ``limit`` bytes of a regular file below ``root``; None if there is none.

    ``root`` itself is ours. No link is followed below it, and nothing that could block (a FIFO, a device) is opened: a link to
    ``/proc/self/environ`` would otherwise put our own secrets into an artifact.
    """
    *folders, name = relative.parts
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
            os.close(held)
            held = inner
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
    except OSError:
        return None
    finally:
        os.close(held)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as stream:
        return stream.read(limit)
