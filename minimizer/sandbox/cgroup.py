"""The control group of a job: what all of its processes may take together, whoever of them takes it.

Limits of processes see neither shared memory nor how many processes there are, and the kernel exempts root from the bound on
processes. Both hierarchies are served: v1, with a mount for each controller, and v2, where a service has to own its group
(``Delegate=`` in its unit) and leaves it for one below, since a group with processes in it may not hand controllers down.
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
"""What is bounded, by the name of its controller."""
KINDS: tuple[Kind, ...] = ("memory", "pids", "cpu")
ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
LEAF = "minimizer-main"
"""The group below its own that a delegated service moves to."""
HALF_WEIGHT = {1: ("cpu.shares", "512"), 2: ("cpu.weight", "50")}
"""A job gets half of the processor that anything else gets, where both want it."""
_OOM_EVENTS = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True)
class Bounds:
    """What the processes of a job may take together."""

    memory_bytes: int
    processes: int
    """Threads count as well."""

    def settings(self, kind: Kind, version: int) -> list[tuple[str, str]]:
        """Files of a group and what to write to them. Without the first one nothing is bounded; the others depend on the kernel."""
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
    """The group of one job, which is there as long as commands of it run. Thread-safe."""

    bounds: Bounds
    ran_out: bool = False
    """Whether the kernel has ended a process of it for want of memory."""
    _folders: dict[Kind, tuple[int, Path]] = field(default_factory=dict)
    _commands: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, pid: int) -> frozenset[Kind]:
        """Put a process, and so all that it will start, into the group; returns what that bounds."""
        with self._lock:
            self._commands += 1
            if self._commands == 1:
                self._folders = _make(self.bounds)
            entered = [kind for kind, (_, folder) in self._folders.items() if _write(folder / "cgroup.procs", str(pid))]
            return frozenset(entered)

    def leave(self) -> None:
        """Say that a command that has entered is gone, with all that it had started."""
        with self._lock:
            self._look()
            self._commands -= 1
            if self._commands == 0:
                remove({folder for _, folder in self._folders.values()})
                self._folders = {}

    def look(self) -> bool:
        """Whether the memory was used up, now or before."""
        with self._lock:
            self._look()
            return self.ran_out

    def _look(self) -> None:
        if "memory" in self._folders and not self.ran_out:
            version, folder = self._folders["memory"]
            self.ran_out = _killed(folder / _OOM_EVENTS[version]) > 0


@functools.cache
def bounded() -> frozenset[Kind]:
    """What can be bounded here, tried on a process that only waits for its end."""
    group = JobGroup(Bounds(64 << 20, 16))
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    kinds = group.enter(process.pid)
    process.communicate()
    group.leave()
    return kinds


def memory_limit() -> int | None:
    """Bytes that this process and all beside it in its group, such as its container, may take; None where no group says."""
    limits = []
    for version, kinds, own in _own_groups():
        if "memory" in kinds:
            name = "memory.limit_in_bytes" if version == 1 else "memory.max"
            mount = _mount(version, "memory")
            limits += [_number(folder / name) for folder in (own, *own.parents) if folder.is_relative_to(mount)]
    return min((limit for limit in limits if limit), default=None)


def remove(groups: Iterable[Path]) -> None:
    """Remove groups whose processes have ended; one that is still busy is left to a later sweep."""
    for group in groups:
        try:
            group.rmdir()
        except OSError:
            pass


def _make(bounds: Bounds) -> dict[Kind, tuple[int, Path]]:
    """Make the groups of a job, one for each hierarchy that lets us: hierarchy's version and folder by kind."""
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
    """The groups that this process is in: version of the hierarchy, its controllers that we use, folder."""
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
        elif (_mount(2) / "cgroup.controllers").exists():  # a hybrid has its mount elsewhere, without controllers
            yield 2, KINDS, _mount(2) / path.lstrip("/")


def _mount(version: int, kind: str = "") -> Path:
    return ROOT / kind if version == 1 else ROOT


def _delegated(own: Path) -> Path | None:
    """The folder of v2 below which a group can be made: our own if nobody else is in it, else that around it, if it is ours."""
    if own.name == LEAF and _hand_down(own.parent):
        return own.parent
    if (own == ROOT and _hand_down(own)) or (_withdraw(own) and _hand_down(own)):
        return own
    return own.parent if own != ROOT and _hand_down(own.parent) else None


def _withdraw(own: Path) -> bool:
    """Move to a group below our own, if there are no processes in it but us and what we have started."""
    try:
        inside = {int(pid) for pid in (own / "cgroup.procs").read_text().split()}
        if not inside <= {os.getpid(), *descendants(os.getpid())}:
            return False
        (own / LEAF).mkdir(exist_ok=True)
    except OSError:
        return False
    return all(_write(own / LEAF / "cgroup.procs", str(pid)) for pid in inside)


def _hand_down(parent: Path) -> bool:
    """Whether groups below have controllers, which are asked for where they are not on yet."""
    try:
        missing = set(KINDS) - set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    missing -= {kind for kind in missing if _write(parent / "cgroup.subtree_control", f"+{kind}")}
    return len(missing) < len(KINDS) and os.access(parent, os.W_OK)


def _sweep(parent: Path) -> None:
    """Remove what was left behind by processes of ours that were killed themselves."""
    for group in parent.glob("minimizer-*-*"):
        owner = group.name.split("-")[1]
        if not Path("/proc", owner).exists():
            remove([group])


def _write(file: Path, value: str) -> bool:
    """Write to a file that is there: one that we made ourselves would bound nothing."""
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


def _killed(events: Path) -> int:
    try:
        counts = dict(line.split() for line in events.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(counts.get("oom_kill", 0))
