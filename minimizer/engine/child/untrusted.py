"""Reads files written by hostile code, without following links and within bounds."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

MOST_ENTRIES = 10_000
DEEPEST = 12


def tail(path: Path, limit: int) -> str:
    """The last ``limit`` bytes, decoded, of a file of ours with a child's output, which may be of any size."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.read(limit).decode("utf-8", "replace")


def read_untrusted(root: Path, relative: Path, limit: int, *, from_end: bool = False) -> bytes | None:
    """The first ``limit`` bytes of a regular file below ``root``, or the last ones; None if there is none.

    ``root`` itself is ours. Below it no link is followed, and only regular files are read: a link to
    ``/proc/self/environ`` would otherwise put our own secrets into an artifact, and a FIFO could block.
    """
    held = _open_folder(root, relative.parent)
    if held is None:
        return None
    try:
        file = os.open(relative.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=held)
    except OSError:
        return None
    finally:
        os.close(held)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    with os.fdopen(file, "rb") as stream:
        if from_end:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - limit))
        return stream.read(limit)


def walk_untrusted(root: Path, start: Path) -> Iterator[Path]:
    """The files below a folder of ``root``, relative to ``root``, nearest first.

    Leaves out files in folders nested deeper than `DEEPEST`, and stops after `MOST_ENTRIES`. No link is followed, so
    that a script cannot lead the walk out of the folder.
    """
    folders, looked = deque([start]), 0
    while folders:
        folder = folders.popleft()
        held = _open_folder(root, folder)
        if held is None:
            continue
        try:
            with os.scandir(held) as entries:
                for entry in entries:
                    looked += 1
                    if looked > MOST_ENTRIES:
                        return
                    if not entry.is_dir(follow_symlinks=False):
                        yield folder / entry.name
                    elif len(folder.parts) < DEEPEST:
                        folders.append(folder / entry.name)
        finally:
            os.close(held)


def _open_folder(root: Path, relative: Path) -> int | None:
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for folder in relative.parts:
        try:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
        except OSError:
            return None
        finally:
            os.close(held)
        held = inner
    return held
