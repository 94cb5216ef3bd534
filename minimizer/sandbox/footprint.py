"""Measures the memory of all processes of a sandbox from /proc, if no control group counts it.

Shared pages count once, by the proportional set size. The kernel walks all page tables to compute it, so it is read only if the
resident sizes, which count shared pages for each process, exceed the bound. Files in memory count even if no process has their
pages in its tables; one that is only in transit through a socket is not seen.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Container, Iterable, Iterator
from itertools import chain
from pathlib import Path

from minimizer.sandbox.supervisor import descendants

IN_MEMORY = ("tmp", "dev/shm")
"""Folders of a sandbox that are memory file systems."""
PROC = Path("/proc")


def exceeds(ancestors: Iterable[int], most: int) -> bool:
    """Whether these processes and all their descendants take more than ``most`` bytes together."""
    roots = list(ancestors)
    family = {*roots, *descendants(*roots)}
    files = _in_files(roots, family)
    return sum(map(_resident, family)) + files > most and _together(family, files) > most


def taken(ancestors: Iterable[int]) -> int:
    """Bytes that these processes and all their descendants take together."""
    roots = list(ancestors)
    family = {*roots, *descendants(*roots)}
    return _together(family, _in_files(roots, family))


def _together(family: Iterable[int], files: int) -> int:
    """Total bytes of some processes. ``files``: bytes in their memory files."""
    anonymous = shared = 0
    for pid in family:
        of_one, of_several = _proportional(pid)
        anonymous, shared = anonymous + of_one, shared + of_several
    return anonymous + max(shared, files)  # a mapped file in memory is in both numbers


def _resident(pid: int) -> int:
    """Bytes of a process in memory, shared pages included, and in swap."""
    return sum(_sizes(PROC / str(pid) / "status", "VmRSS", "VmSwap"))


def _proportional(pid: int) -> tuple[int, int]:
    """A process's private bytes, including those in swap, and its share of shared memory.

    Page cache of files on disk is left out, since it can be dropped. Swapped parts of a memory file count in the size
    of the file.
    """
    anonymous, swapped, shared = _sizes(PROC / str(pid) / "smaps_rollup", "Pss_Anon", "SwapPss", "Pss_Shmem")
    return anonymous + swapped, shared


def _sizes(file: Path, *names: str) -> list[int]:
    """Bytes by name, 0 for missing names, from a file of ``NAME: N kB`` lines."""
    sizes = dict.fromkeys(names, 0)
    try:
        for line in file.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name in sizes:
                sizes[name] = int(value.split()[0]) << 10
    except OSError:  # the process has ended
        pass
    return list(sizes.values())


def _in_files(roots: Iterable[int], family: Iterable[int]) -> int:
    """Bytes in the sandboxes' memory file systems, and in memory files without a name that processes hold open or have mapped."""
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
        for link in chain(_open(pid), _mapped(pid, nameless)):
            try:
                about = os.stat(link)  # noqa: PTH116
            except OSError:
                continue
            nameless[about.st_dev, about.st_ino] = about.st_blocks * 512
    return sum(disks.values()) + sum(nameless.values())


def _open(pid: int) -> Iterator[str]:
    """Links to the memory files without a name that a process holds open."""
    try:
        descriptors = list(os.scandir(f"/proc/{pid}/fd"))
    except OSError:
        return
    for descriptor in descriptors:
        try:
            if os.readlink(descriptor.path).startswith("/memfd:"):  # noqa: PTH115
                yield descriptor.path
        except OSError:
            continue


def _mapped(pid: int, known: Container[tuple[int, int]]) -> Iterator[str]:
    """Links to the unnamed memory files that a process has mapped, except those whose device and inode are ``known``.

    Such a file can be larger than its mapped part and than the page tables show; only its inode has the size. They are
    recognised by their device, since a process can name its own mappings.
    """
    if (device := _nameless_device()) is None:
        return
    column = f"{os.major(device):02x}:{os.minor(device):02x}".encode()
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return
    for extent, inode in re.findall(rb"^(\S+) \S+ \S+ %b (\d+)" % column, maps, re.MULTILINE):
        if (device, int(inode)) not in known:
            yield f"/proc/{pid}/map_files/{extent.decode()}"


@functools.cache
def _nameless_device() -> int | None:
    """The device of unnamed memory files.

    None if we may not follow mappings, which takes root or CAP_CHECKPOINT_RESTORE.
    """
    file = os.memfd_create("minimizer")
    try:
        with os.scandir("/proc/self/map_files") as mappings:
            next(mappings).stat()
        return os.fstat(file).st_dev
    except OSError:
        return None
    finally:
        os.close(file)
