"""Measures the memory of all processes of a sandbox from /proc, if no control group counts it.

Shared pages count once, by the proportional set size. The kernel walks all page tables to compute it, so it is read only if the
resident sizes, which count shared pages for each process, exceed the bound. Files in memory count even if no process maps them;
one that is only in transit through a socket is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from minimizer.sandbox.supervisor import descendants

IN_MEMORY = ("tmp", "dev/shm")
"""Folders of a sandbox that are memory file systems."""


def exceeds(ancestors: Iterable[int], most: int) -> bool:
    """Whether these processes and all their descendants take more than ``most`` bytes together."""
    roots = list(ancestors)
    family = {*roots, *descendants(*roots)}
    files = _in_files(roots, family)
    if sum(map(_resident, family)) + files <= most:
        return False
    anonymous, shared = map(sum, zip(*map(_proportional, family), strict=True))
    return anonymous + max(shared, files) > most  # a mapped file in memory is in both numbers


def _resident(pid: int) -> int:
    """Resident bytes of a process, shared pages included."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):  # it has ended
        return 0


def _proportional(pid: int) -> tuple[int, int]:
    """A process's private bytes, and its share of shared memory; page cache of files on disk is left out, since it can be dropped."""
    sizes = {"Pss_Anon": 0, "Pss_Shmem": 0}
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) << 10
    except (OSError, IndexError):
        pass
    return sizes["Pss_Anon"], sizes["Pss_Shmem"]


def _in_files(roots: Iterable[int], family: Iterable[int]) -> int:
    """Bytes in the sandboxes' memory file systems, and in unnamed memory files (memfd) that processes hold open."""
    disks: dict[int, int] = {}
    for root in roots:
        for name in IN_MEMORY:
            folder = f"/proc/{root}/root/{name}"
            try:
                if os.stat(folder).st_dev != os.stat(f"/{name}").st_dev:  # noqa: PTH116 - called several times a second
                    disk = os.statvfs(folder)
                    disks[os.stat(folder).st_dev] = (disk.f_blocks - disk.f_bfree) * disk.f_frsize  # noqa: PTH116
            except OSError:
                continue
    nameless: dict[tuple[int, int], int] = {}
    for pid in family:
        try:
            descriptors = list(os.scandir(f"/proc/{pid}/fd"))
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                if os.readlink(descriptor.path).startswith("/memfd:"):  # noqa: PTH115
                    about = descriptor.stat()
                    nameless[about.st_dev, about.st_ino] = about.st_blocks * 512
            except OSError:
                continue
    return sum(disks.values()) + sum(nameless.values())
