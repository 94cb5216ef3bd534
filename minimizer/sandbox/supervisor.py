"""Supervises one untrusted command under plain limits, if bubblewrap is not available.

Run by path as ``python -I -S supervisor.py FD``; FD holds the order as JSON. It is a separate process, and not a
``preexec_fn``, because our callers have threads, and in a child forked from a threaded process only ``exec`` is safe.
It adopts orphaned processes of the command (as a child subreaper), so that daemons can be found and killed too.
Standard library only; ``minimizer.sandbox`` imports ``end_descendants`` and ``descendants`` from here.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_END_SECONDS = 10.0
"""Longest wait after SIGKILL; only a process that we may not kill, or one stuck in the kernel, takes longer."""


def end_descendants(ancestor: int) -> None:
    """Kill all descendants of a process, itself excluded, and wait until they are gone.

    All are stopped first, since a process that forks faster than we read /proc would escape a plain kill.
    """
    stopped: set[int] = set()
    while fresh := descendants(ancestor) - stopped:
        _signal_all(fresh, signal.SIGSTOP)
        stopped |= fresh
    _signal_all(stopped, signal.SIGKILL)
    for pid in stopped:
        _await_end(pid)


def _await_end(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([process], [], [], _END_SECONDS)
    os.close(process)


def descendants(*ancestors: int) -> set[int]:
    """All live descendants of these processes, themselves excluded."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # the process ended meanwhile
            continue
        if state not in "ZX":
            children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    todo = list(ancestors)
    while todo:
        kids = children.get(todo.pop(), [])
        found.update(kids)
        todo.extend(kids)
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended, or a setuid program has become another user
            pass


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _become(order: dict[str, Any]) -> NoReturn:
    """Turn this process into the command, which dies with the supervisor, even if that is killed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    try:
        for which, value in order["limits"]:
            resource.setrlimit(which, (value, value))
        os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as error:
        sys.stderr.write(f"{order['argv'][0]}: {error.strerror}\n")
        sys.stderr.flush()
    os._exit(127)


def _let_go(descriptors: list[int]) -> None:
    """Close our copies of the command's descriptors, so that a reader at the other end waits for the command only."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    for descriptor in {*descriptors, nothing}:
        os.close(descriptor)


def _wait_for(child: int) -> int:
    """Wait for the command; its exit status, 128 + N after signal N as in a shell and bubblewrap."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def main(order_fd: int) -> int:
    with os.fdopen(order_fd) as stream:
        order = json.load(stream)

    def end(_number: int, _frame: FrameType | None) -> None:
        end_descendants(os.getpid())
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != order["parent"]:  # it died before the death signal was set
        return 128 + signal.SIGTERM
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _become(order)
    _let_go(order["pass_fds"])
    status = _wait_for(child)
    end_descendants(os.getpid())
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
