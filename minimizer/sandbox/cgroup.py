"""Bounds the number of processes of a sandbox that root started.

The kernel exempts root from RLIMIT_NPROC, also in a user namespace of its own, so a fork bomb of a service that runs as
root needs the ``pids`` controller. Both hierarchies are served: v1 with a mount of its own, and v2, where the new group
lies beside ours, since a group with processes in it may not hand controllers down.
"""

from __future__ import annotations

import functools
import os
import secrets
import subprocess
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def bound_processes(pid: int, most: int) -> Path | None:
    """Put a process, and so all that it will start, into a group of at most ``most`` tasks; None if we may not."""
    for parent in _parents():
        _sweep(parent)
        group = parent / f"minimizer-{os.getpid()}-{secrets.token_hex(4)}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "pids.max").write_text(str(most))
            (group / "cgroup.procs").write_text(str(pid))
        except OSError:
            remove(group)
            continue
        return group
    return None


@functools.cache
def is_usable() -> bool:
    """Whether ``bound_processes`` works for us, tried on a process that only waits for its end."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    group = bound_processes(process.pid, 2)
    process.communicate()
    if group is not None:
        remove(group)
    return group is not None


def _sweep(parent: Path) -> None:
    """Remove what was left behind by processes of ours that were killed themselves."""
    for group in parent.glob("minimizer-*-*"):
        owner = group.name.split("-")[1]
        if not Path("/proc", owner).exists():
            remove(group)


def remove(group: Path) -> None:
    """Remove a group whose processes have ended; one that is still busy is left to a later sweep."""
    try:
        group.rmdir()
    except OSError:
        pass


def _parents() -> list[Path]:
    """Where a group with a ``pids`` limit could be made, judged by where this process is."""
    parents = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if "pids" in controllers.split(","):
            parents.append(_ROOT / "pids" / own.lstrip("/"))
        elif not controllers:
            parents.append((_ROOT / own.lstrip("/")).parent if own != "/" else _ROOT)
    return parents
