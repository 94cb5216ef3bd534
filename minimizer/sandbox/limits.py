"""The weaker sandboxes: resource limits with a supervisor (`Limits`), or none (`Unconfined`)."""

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
from typing import Any

from minimizer.sandbox import supervisor
from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Command, Sandbox, pipe, values
from minimizer.sandbox.cgroup import Bounds
from minimizer.sandbox.devices import Devices


class Unconfined(Sandbox):
    """No confinement; a command only gets its own process group."""

    name = "off"
    is_strong = False
    notice = "The sandbox is off: the script can do all that you can, on this machine and in your network."

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        return command.popen(command.argv, command.env, cwd=command.cwd, is_confined=False)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        _kill_group(process)

    def watch(self) -> None:
        """Does nothing: memory is not bounded here."""

    def end(self) -> None:
        """Does nothing: no command is ended for exceeding a bound here."""


class Limits(Sandbox):
    """Resource limits and a supervisor that finds daemons; files, network and other processes are not protected."""

    name = "limits"
    is_strong = False

    def __init__(
        self,
        trouble: str,
        memory_bytes: int | None = None,
        devices: Devices = Devices(),  # noqa: B008
        bounds: Bounds | None = None,
    ) -> None:
        super().__init__(memory_bytes, devices, bounds)
        self._pids: weakref.WeakKeyDictionary[subprocess.Popen[bytes], int] = weakref.WeakKeyDictionary()
        self._left: weakref.WeakKeyDictionary[subprocess.Popen[bytes], weakref.finalize[..., Any]] = (
            weakref.WeakKeyDictionary()
        )
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
            # The supervisor's own environment is empty: LD_PRELOAD and the like apply to the command only.
            supervise = [sys.executable, "-I", "-S", supervisor.__file__, str(order_end)]
            process = command.popen(supervise, {}, extra_fds=[order_end])
            theirs.close()
            if "memory" not in self._group.enter(process.pid):
                self._running[process] = process.pid
            self._pids[process] = process.pid
            self._left[process] = weakref.finalize(process, self._group.leave)
            with os.fdopen(order_fd, "w", closefd=False) as stream:  # nothing starts before it is in its group
                json.dump(order, stream)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the command and its descendants, as far as possible: a script can kill its supervisor (same user) and
        leave a daemon.
        """
        if process.poll() is None:
            supervisor.end_descendants(process.pid)
        _kill_group(process)
        for kept in (self._running, self._pids):
            kept.pop(process, None)
        if leave := self._left.pop(process, None):
            leave()

    def end(self) -> None:
        for pid in values(self._pids):
            supervisor.end_descendants(pid)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _own_tasks() -> int:
    """Number of threads of this user, all of which RLIMIT_NPROC counts outside a user namespace."""
    tasks = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                tasks += len(os.listdir(entry / "task"))  # noqa: PTH208 - names are enough
        except OSError:  # the process ended meanwhile
            continue
    return tasks
