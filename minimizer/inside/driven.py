"""Drives a script that serves until it is stopped: waits until it is ready, runs a command against it, and ends it.

The plan is in the environment, so that every run of the script follows it. This file is also a launcher without other
imports of ours: ``python driven.py FILE ARGS`` runs a file as ``python FILE ARGS`` would.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

READY, DRIVE = "MINIMIZER_READY", "MINIMIZER_DRIVE"
"""Variables: a port, or text of the script's output, that shows readiness; the shell command to run then, if any."""
READY_SECONDS = 300.0
"""Time for a script to become ready: it may have models to load and to compile."""
POLL_SECONDS = 0.1
ATTEMPTS, AGAIN_SECONDS = 5, 5.0
"""How often a script that keeps running is ended, and the time between: some catch every exception, some shut down
slowly.
"""
END = signal.SIGRTMIN + 7
"""The signal to our own main thread that ends the script there."""
LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp (``include/net/tcp_states.h`` of Linux)."""


class Over(SystemExit):
    """Ends a script whose plan is done, as ``sys.exit(0)`` would."""


class DriveFailed(Exception):
    """The script was not ready in time, or the command that drives it failed."""


def begin() -> Callable[[], None]:
    """Start to follow the plan, if there is one; returns a callback that stops it, for the end of the script.

    Call it in the main thread, before the script begins. `Over` or `DriveFailed` is raised there when the plan is done.
    """
    ready = os.environ.get(READY)
    if ready is None:
        return lambda: None
    plan = _Plan(ready, os.environ.get(DRIVE))
    plan.begin()
    return plan.stop


class _Plan:
    def __init__(self, ready: str, command: str | None) -> None:
        self._ready, self._command = ready, command
        self._stopped = threading.Event()
        self._output: _Output | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._end: BaseException = Over(0)

    def begin(self) -> None:
        if not self._ready.isdecimal():
            self._output = _Output(self._ready.encode())
        signal.signal(END, self._raise)
        threading.Thread(target=self._follow, name="drive", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        if self._output is not None:
            self._output.give_back()

    def _raise(self, *_: object) -> None:
        if not self._stopped.is_set():
            raise self._end

    def _follow(self) -> None:
        failure = self._wait() or self._drive()
        if failure:
            self._end = DriveFailed(failure)
        for _ in range(ATTEMPTS):
            if self._stopped.is_set():
                return
            signal.pthread_kill(threading.main_thread().ident or 0, END)
            self._stopped.wait(AGAIN_SECONDS)

    def _wait(self) -> str:
        """Why the script is not ready in time; empty once it is."""
        is_ready = self._output.has_it if self._output is not None else lambda: listens(int(self._ready))
        over = time.monotonic() + READY_SECONDS
        while not is_ready():
            if self._stopped.wait(POLL_SECONDS):
                return ""
            if time.monotonic() > over:
                sign = f"print {self._ready!r}" if self._output is not None else f"listen at port {self._ready}"
                return f"the script was not ready within {READY_SECONDS:g} s: it did not {sign}"
        return ""

    def _drive(self) -> str:
        """Run the command; returns what is wrong with its end, or an empty text."""
        if self._command is None or self._stopped.is_set():
            return ""
        environment = {name: value for name, value in os.environ.items() if name not in (READY, DRIVE)}
        # The command's output is not the script's.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", self._command], stdout=2, env=environment, start_new_session=True
        )
        status = self._process.wait()
        return f"the command that drives the script ended with status {status}" if status else ""


class _Output:
    """Standard output and error by their descriptors, forwarded to their destinations and searched for a text."""

    def __init__(self, text: bytes) -> None:
        self._text, self._seen = text, threading.Event()
        self._kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
        self._copies = [self._copied(descriptor) for descriptor in self._kept]
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):  # replaced by an object of the script's
                stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def has_it(self) -> bool:
        return self._seen.is_set()

    def give_back(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or replaced by the script
                stream.flush()
        for descriptor, kept in self._kept.items():
            os.dup2(kept, descriptor)
        for copy in self._copies:
            copy.join(AGAIN_SECONDS)  # an orphan process of the script may still hold the other end

    def _copied(self, descriptor: int) -> threading.Thread:
        source, target = os.pipe()
        os.dup2(target, descriptor)
        os.close(target)
        thread = threading.Thread(target=self._copy, args=(source, self._kept[descriptor]), daemon=True)
        thread.start()
        return thread

    def _copy(self, source: int, target: int) -> None:
        last = b""
        while chunk := os.read(source, 1 << 16):
            os.write(target, chunk)
            if not self._seen.is_set():
                last += chunk
                if self._text in last:
                    self._seen.set()
                last = last[-len(self._text) :]


def listens(port: int) -> bool:
    """Whether a process of this network namespace listens at a TCP port; a connection would count as a request to it."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(FileNotFoundError), open(table) as file:
            for line in list(file)[1:]:
                _, local, _, state, *_ = line.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


if __name__ == "__main__":
    atexit.register(begin())
    sys.argv, sys.path[0] = sys.argv[1:], os.path.dirname(sys.argv[1])
    runpy.run_path(sys.argv[0], run_name="__main__")
