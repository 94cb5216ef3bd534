"""How much memory all processes of a sandbox take together, read from /proc, where no control group counts it.

Shared pages count once, for which the kernel has the proportional set size. It walks all page tables for that, so it is asked only
where the plain sizes, in which they count for each process, exceed the bound. What a file in memory holds counts also where no
process has it mapped; one that only waits in a socket to be received is not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from minimizer.sandbox.supervisor import descendants

IN_MEMORY = ("tmp", "dev/shm")
"""Folders of a sandbox that take memory, not disk."""


def exceeds(ancestors: Iterable[int], most: int) -> bool:
    """Whether processes and all that descends from them take more than ``most`` bytes together."""
    roots = list(ancestors)
    family = {*roots, *descendants(*roots)}
    files = _in_files(roots, family)
    if sum(map(_resident, family)) + files <= most:
        return False
    anonymous, shared = map(sum, zip(*map(_proportional, family), strict=True))
    return anonymous + max(shared, files) > most  # a file that is mapped is one of the two


def _resident(pid: int) -> int:
    """Bytes in memory, those shared with others included."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):  # it has ended
        return 0


def _proportional(pid: int) -> tuple[int, int]:
    """Bytes of its own, and its part of those in shared memory; what is read from files on disk can be dropped at any time."""
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
    """Bytes in the sandboxes' folders in memory, and in files without a name that processes hold open."""
    disks: dict[int, int] = {}
    for root in roots:
        for name in IN_MEMORY:
            folder = f"/proc/{root}/root/{name}"
            try:
                if os.stat(folder).st_dev != os.stat(f"/{name}").st_dev:  # noqa: PTH116 - twice a second
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
