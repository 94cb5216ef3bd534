"""The control group of a job: bounds memory, processes and processor share over all its processes together.

Limits of single processes cover neither shared memory nor the number of processes, and the kernel exempts root from RLIMIT_NPROC.
Both versions are supported: v1, with a mount for each controller, and v2, where a service must own its group (``Delegate=`` in its
unit) and moves to a child group, since a group with processes in it cannot pass controllers down.
"""

from __future__ import annotations

import functools
import os
import secrets
import subprocess
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from minimizer.sandbox.supervisor import descendants

Kind = Literal["memory", "pids", "cpu"]
"""A bounded resource, by the name of its controller."""
KINDS: tuple[Kind, ...] = ("memory", "pids", "cpu")
ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
LEAF = "minimizer-main"
"""Name of the child group to which a delegated service moves."""
HALF_WEIGHT = {1: ("cpu.shares", "512"), 2: ("cpu.weight", "50")}
"""File and value for each version: half of the default weight, so that a job yields the processor to other services."""
_OOM_KILLS = {1: "memory.oom_control", 2: "memory.events"}
"""The file that counts the processes of a group killed by any OOM killer: its own, a parent group's, or the machine's.
"""
_PEAKS = ("memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes")
"""The most that a group of version 1 has taken, without swap and with it. Its failcnt is no substitute: with both limits equal, newer
kernels leave it at 0."""
_LAST_CHARGE = 1 << 20
"""Bytes below the limit at which a charge may already fail, generously: the kernel takes pages by the dozen."""


@dataclass(frozen=True)
class Bounds:
    """Bounds on all processes of a job together."""

    memory_bytes: int
    processes: int
    """Most processes and threads."""

    def settings(self, kind: Kind, version: int) -> list[tuple[str, str]]:
        """(file, value) pairs to write for a resource. The first is required for the bound; the others depend on the kernel."""
        if kind == "cpu":
            return [HALF_WEIGHT[version]]
        if kind == "pids":
            return [("pids.max", str(self.processes))]
        most = str(self.memory_bytes)
        if version == 1:
            return [("memory.limit_in_bytes", most), ("memory.memsw.limit_in_bytes", most)]
        return [("memory.max", most), ("memory.swap.max", "0"), ("memory.oom.group", "1")]


@dataclass
class JobGroup:
    """The control group of one job, which exists while commands of the job run. Thread-safe."""

    bounds: Bounds
    ran_out: bool = False
    """Whether the kernel has killed a process of the group for exceeding the memory bound."""
    was_starved: bool = False
    """Whether the kernel killed a process although the group was within its bound, for lack of memory elsewhere."""
    _folders: dict[Kind, tuple[int, Path]] = field(default_factory=dict)
    _commands: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, pid: int) -> frozenset[Kind]:
        """Put a process, and so all its future children, into the group. Returns the resources that are thereby bounded."""
        with self._lock:
            if self._commands == 0:
                self._folders = _make(self.bounds)
            self._commands += 1
            entered = [kind for kind, (_, folder) in self._folders.items() if _write(folder / "cgroup.procs", str(pid))]
            return frozenset(entered)

    def leave(self) -> None:
        """Record that a command that entered has ended with all its descendants; the last one removes the group."""
        with self._lock:
            self._look()
            self._commands -= 1
            if self._commands == 0:
                remove({folder for _, folder in self._folders.values()})
                self._folders = {}

    def look(self) -> bool:
        """Whether the memory bound was exceeded, now or earlier. Sets ``was_starved``, too."""
        with self._lock:
            self._look()
            return self.ran_out

    def _look(self) -> None:
        if "memory" not in self._folders or self.ran_out or self.was_starved:
            return
        version, folder = self._folders["memory"]
        events = _counts(folder / _OOM_KILLS[version])
        if events.get("oom_kill", 0) > 0:
            self.ran_out = self._reached_limit(folder) if version == 1 else events.get("oom", 0) > 0
            self.was_starved = not self.ran_out

    def _reached_limit(self, folder: Path) -> bool:
        return max(_number(folder / name) or 0 for name in _PEAKS) >= self.bounds.memory_bytes - _LAST_CHARGE


@functools.cache
def bounded() -> frozenset[Kind]:
    """The resources that can be bounded on this machine, found by trying with an idle process."""
    group = JobGroup(Bounds(64 << 20, 16))
    process = subprocess.Popen(["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE)  # found whatever PATH is
    kinds = group.enter(process.pid)
    process.communicate()
    group.leave()
    return kinds


def memory_limit() -> int | None:
    """Memory limit in bytes of the control group (such as a container) that this process is in; None if there is none."""
    limits = []
    for version, kinds, own in _own_groups():
        if "memory" in kinds:
            name = "memory.limit_in_bytes" if version == 1 else "memory.max"
            mount = _mount(version, "memory")
            limits += [_number(folder / name) for folder in (own, *own.parents) if folder.is_relative_to(mount)]
    return min((limit for limit in limits if limit), default=None)


def remove(groups: Iterable[Path]) -> None:
    """Remove groups whose processes have ended; others are left to a later sweep."""
    for group in groups:
        try:
            group.rmdir()
        except OSError:
            pass


def _make(bounds: Bounds) -> dict[Kind, tuple[int, Path]]:
    """Make the groups of a job, one in each hierarchy that permits it. Returns the hierarchy's version and the folder by resource."""
    name = f"minimizer-{os.getpid()}-{secrets.token_hex(4)}"
    made: dict[Kind, tuple[int, Path]] = {}
    for version, kinds, own in _own_groups():
        parent = own if version == 1 else _delegated(own)
        if parent is None:
            continue
        _sweep(parent)
        folder = parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        for kind in kinds:
            needed, *further = bounds.settings(kind, version)
            if kind not in made and _write(folder / needed[0], needed[1]):
                made[kind] = (version, folder)
                for file, value in further:
                    _write(folder / file, value)
        if folder not in {used for _, used in made.values()}:
            remove([folder])
    return made


def _own_groups() -> Iterator[tuple[int, tuple[Kind, ...], Path]]:
    """The control groups of this process, as (version of the hierarchy, controllers that we use, folder)."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers:
            for kind in KINDS:
                if kind in controllers.split(","):
                    yield 1, (kind,), _mount(1, kind) / path.lstrip("/")
        elif (_mount(2) / "cgroup.controllers").exists():  # a hybrid setup mounts v2 elsewhere, without controllers
            yield 2, KINDS, _mount(2) / path.lstrip("/")


def _mount(version: int, kind: str = "") -> Path:
    return ROOT / kind if version == 1 else ROOT


def _delegated(own: Path) -> Path | None:
    """The v2 folder in which a group can be made: our own if only our processes are in it, else its parent; None if neither works."""
    if own.name == LEAF and _hand_down(own.parent):
        return own.parent
    if (own == ROOT and _hand_down(own)) or (_withdraw(own) and _hand_down(own)):
        return own
    return own.parent if own != ROOT and _hand_down(own.parent) else None


def _withdraw(own: Path) -> bool:
    """Move this process and its descendants to a child group, if no other processes are in the group. Returns whether that worked."""
    try:
        inside = {int(pid) for pid in (own / "cgroup.procs").read_text().split()}
        if not inside <= {os.getpid(), *descendants(os.getpid())}:
            return False
        (own / LEAF).mkdir(exist_ok=True)
    except OSError:
        return False
    return all(_write(own / LEAF / "cgroup.procs", str(pid)) for pid in inside)


def _hand_down(parent: Path) -> bool:
    """Enable our controllers for child groups. Returns whether at least one is on and child groups can be made."""
    try:
        missing = set(KINDS) - set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    missing -= {kind for kind in missing if _write(parent / "cgroup.subtree_control", f"+{kind}")}
    return len(missing) < len(KINDS) and os.access(parent, os.W_OK)


def _sweep(parent: Path) -> None:
    """Remove groups of minimizer processes that were killed before they could."""
    for group in parent.glob("minimizer-*-*"):
        owner = group.name.split("-")[1]
        if not Path("/proc", owner).exists():
            remove([group])


def _write(file: Path, value: str) -> bool:
    """Write to an existing file; never create it, since a new file would bound nothing. Returns whether it worked."""
    try:
        descriptor = os.open(file, os.O_WRONLY)
    except OSError:
        return False
    try:
        os.write(descriptor, value.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None


def _counts(events: Path) -> dict[str, int]:
    try:
        return {name: int(count) for name, count in map(str.split, events.read_text().splitlines())}
    except (OSError, ValueError):
        return {}
