"""Processes by their place in the tree, read from /proc: who came of whom, and what is left of a service."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Process:
    """A process as it stood when it was read."""

    pid: int
    parent: int
    name: str

    @property
    def command(self) -> bytes:
        """Its arguments, each ended by a NUL; empty where it has ended by now."""
        try:
            return Path("/proc", str(self.pid), "cmdline").read_bytes()
        except OSError:
            return b""


def adopt_orphans() -> None:
    """From now on whatever our descendants leave behind becomes our child, and can be found below us."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not let us adopt orphans")


def below(pid: int) -> list[Process]:
    """All living processes that came of this one, parents before children."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        some = children.get(waiting.pop(0), [])
        found += some
        waiting += [process.pid for process in some]
    return found


def sandboxed(worker: int) -> tuple[list[Process], list[Process], list[Process]]:
    """What a worker has in its sandboxes: the bwraps that it started, the first process in each, and all below those."""
    of = {process.pid: process for process in below(worker)}
    outer = [process for process in of.values() if process.name == "bwrap" and process.parent == worker]
    is_bwrap = {process.pid for process in of.values() if process.name == "bwrap"}
    first = [process for process in of.values() if process.parent in is_bwrap and process.pid not in is_bwrap]
    heads = {process.pid for process in first} | is_bwrap | {worker}
    inside = {process.pid for head in first for process in below(head.pid)}
    return outer, first, [process for process in of.values() if process.pid in inside - heads]


def bury(known: set[int]) -> None:
    """Wait for our children that have ended, but for the ``known`` ones, whose owner does."""
    for process in _all(dead=True):
        if process.parent == os.getpid() and process.pid not in known:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def _all(*, dead: bool = False) -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            stat = (folder / "stat").read_text(errors="replace")  # a process may be called what is no text
        except OSError:  # it has ended meanwhile
            continue
        name, _, rest = stat.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        if (state in "ZX") is dead:
            yield Process(int(folder.name), int(parent), name)
