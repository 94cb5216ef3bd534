"""The weaker ways to run a command: under resource limits with a supervisor, or under nothing at all."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import weakref
from contextlib import ExitStack
from pathlib import Path

from minimizer.sandbox import cgroup, supervisor
from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Command, Sandbox, pipe
from minimizer.sandbox.devices import Devices


class Unconfined(Sandbox):
    """No confinement at all, only a process group of its own."""

    name = "off"
    is_strong = False
    notice = "The sandbox is off: the script can do all that you can, on this machine and in your network."

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        return command.popen(command.argv, command.env, cwd=command.cwd, is_confined=False)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        _kill_group(process)


class Limits(Sandbox):
    """Resource limits and a supervisor that finds daemons; files, network and other processes stay open."""

    name = "limits"
    is_strong = False

    def __init__(self, trouble: str, memory_bytes: int | None = None, devices: Devices = Devices()) -> None:  # noqa: B008
        super().__init__(memory_bytes, devices)
        self._groups: weakref.WeakKeyDictionary[subprocess.Popen[bytes], Path] = weakref.WeakKeyDictionary()
        self.notice = (
            f"Weak sandbox, since {trouble}: the script runs under resource limits only and can read your files, "
            f"reach your network and signal your processes. {HOW_TO_GET_BUBBLEWRAP}"
        )

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        order = {
            "argv": list(command.argv),
            "cwd": str(command.cwd),
            "env": dict(command.env),
            "limits": [(w, n + _own_tasks() if w == resource.RLIMIT_NPROC else n) for w, n in command.limits],
            "parent": os.getpid(),
            "pass_fds": list(command.pass_fds),
        }
        with ExitStack() as ours, ExitStack() as theirs:
            order_end, order_fd = pipe(theirs, ours)
            # Its own environment is empty: LD_PRELOAD and the like are for the command, not for the supervisor.
            supervise = [sys.executable, "-I", "-S", supervisor.__file__, str(order_end)]
            process = command.popen(supervise, {}, extra_fds=[order_end])
            theirs.close()
            group = cgroup.bound_processes(process.pid, command.processes) if os.getuid() == 0 else None
            if group is not None:
                self._groups[process] = group
                weakref.finalize(process, cgroup.remove, group)
            with os.fdopen(order_fd, "w", closefd=False) as stream:  # nothing starts before it is in its group
                json.dump(order, stream)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Best effort: a script that first kills its supervisor, which runs as the same user, can leave a daemon."""
        if process.poll() is None:
            supervisor.end_descendants(process.pid)
        _kill_group(process)
        if group := self._groups.pop(process, None):
            cgroup.remove(group)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _own_tasks() -> int:
    """How many threads this user has: outside a user namespace RLIMIT_NPROC counts all of them."""
    tasks = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                tasks += len(os.listdir(entry / "task"))  # noqa: PTH208 - names are enough
        except OSError:  # it ended while we were counting
            continue
    return tasks
