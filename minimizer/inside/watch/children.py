"""Counts the processes that a script starts, whose compiled code we cannot observe.

Processes that torch starts for itself, such as compilers and compile workers, do not count; data loaders and launchers
do.
"""

from __future__ import annotations

import functools
import multiprocessing.process
import os
import subprocess
import sys
import threading
import types
from typing import Any

import torch

EVENTS = frozenset(["subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"])
STANDARD = os.path.dirname(subprocess.__file__) + os.sep
INSTALLED = ("site-packages", "dist-packages")
OF_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
TORCH = os.path.dirname(torch.__file__) + os.sep
FOR_THE_SCRIPT = tuple(
    TORCH + os.path.join(*path) for path in (("multiprocessing",), ("utils", "data"), ("distributed",))
)
FOR_THEMSELVES = (TORCH, OF_OURS, os.path.join(os.path.dirname(os.path.dirname(TORCH)), "triton") + os.sep)


class Children:
    """Counts processes from now on, by an audit hook and by wrapping `multiprocessing`'s ``start``; cannot be undone."""

    def __init__(self) -> None:
        self.count = 0
        self._starting = threading.local()
        """Set in a thread while it starts a `multiprocessing` process: the forks and spawns inside are not counted
        again.
        """
        process: Any = multiprocessing.process.BaseProcess
        process.start = self._started(process.start)
        sys.addaudithook(self._on_event)

    def _started(self, original: Any) -> Any:
        @functools.wraps(original)
        def start(process: Any) -> Any:
            self._count(sys._getframe(1))
            self._starting.now = True
            try:
                return original(process)
            finally:
                self._starting.now = False

        return start

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS or getattr(self._starting, "now", False):
            return
        caller = sys._getframe(1)
        if event != "subprocess.Popen" and caller.f_code.co_filename == subprocess.__file__:
            return  # `subprocess` has already announced this process by its own event
        self._count(caller)

    def _count(self, frame: types.FrameType | None) -> None:
        """Count a process, unless the innermost code outside the standard library belongs to torch, Triton or us."""
        while frame is not None and _is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        file = frame.f_code.co_filename if frame is not None else ""
        if not file.startswith(FOR_THEMSELVES) or file.startswith(FOR_THE_SCRIPT):
            self.count += 1


def _is_standard(file: str) -> bool:
    return file.startswith("<frozen") or (file.startswith(STANDARD) and not any(part in file for part in INSTALLED))
