"""Whether this machine can do a job at all, asked before one is claimed: what fails here says nothing of a script."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

from minimizer.engine.child.scratch_disk import why_full
from minimizer.errors import MissingTool
from minimizer.sandbox import cxx, require_torch, try_bubblewrap, why_no_bubblewrap
from minimizer.settings import Settings

LEAST_MEMORY = 1 << 30
"""Bytes that must be available: torch and the compiler take as much before a script has done anything."""
LOOK_SECONDS = 5.0
"""How long an answer holds."""
ANSWER_SECONDS = 30.0
"""How long one is waited for; half of the silence after which a worker counts as gone, so that this one can say what is wrong."""
INTERPRETER_SECONDS = 60.0
MEMINFO = Path("/proc/meminfo")


class Fitness:
    """What is wrong with this machine, looked at anew every few seconds at most."""

    def __init__(self, look: Callable[[], str]) -> None:
        self._look = look
        self._choosing = threading.Lock()
        self._latest: _Look | None = None

    @classmethod
    def of(cls, settings: Settings) -> Fitness:
        """Of a worker with these settings.

        Where bubblewrap is missing from the beginning and need not be there, that is a choice; where it stops working, it is trouble.
        With access control on it needs to be there, whatever the settings of the sandbox are.
        """
        is_required = settings.sandbox == "required" or settings.access == "on"
        needs_sandbox = is_required or (settings.sandbox != "off" and why_no_bubblewrap() is None)
        return cls(lambda: why_unfit(settings.interpreters, needs_sandbox=needs_sandbox))

    def trouble(self) -> str:
        """What is wrong, as a sentence for the operator; empty if nothing is. It comes within `ANSWER_SECONDS`."""
        with self._choosing:
            if self._latest is None or self._latest.is_old:
                self._latest = _Look(self._look)
            look = self._latest
        return look.trouble()


class _Look:
    """One look at the machine, in a thread of its own: a disk or a program that hangs must not hang who asks."""

    def __init__(self, look: Callable[[], str]) -> None:
        self._answer: Future[str] = Future()
        self._late_at = time.monotonic() + ANSWER_SECONDS
        self._ended = float("inf")
        threading.Thread(target=self._run, args=[look], name="fitness", daemon=True).start()

    @property
    def is_old(self) -> bool:
        """Whether it ended too long ago. One that goes on never is: no second one is to hang beside it."""
        return time.monotonic() - self._ended >= LOOK_SECONDS

    def trouble(self) -> str:
        try:
            return self._answer.result(max(0.0, self._late_at - time.monotonic()))
        except TimeoutError:
            return f"this machine does not answer within {ANSWER_SECONDS:g} s: its disk, sandbox, compiler or an interpreter hangs"

    def _run(self, look: Callable[[], str]) -> None:
        try:
            answer = look()
        except Exception as error:
            answer = f"this machine cannot be looked at: {error}"
        self._ended = time.monotonic()
        self._answer.set_result(answer)


def why_unfit(interpreters: Mapping[str, Path], *, needs_sandbox: bool) -> str:
    """The first thing that is wrong: disk, memory, sandbox, compiler, interpreters by name, our own among them; empty if nothing is."""
    return (
        _disk()
        or _memory()
        or (needs_sandbox and try_bubblewrap())
        or _compiler()
        or next(filter(None, (_interpreter(python) for python in (Path(sys.executable), *interpreters.values()))), "")
        or ""
    )


def _disk() -> str:
    try:
        with tempfile.TemporaryDirectory(prefix="minimizer-fitness-") as folder:
            return why_full(Path(folder))
    except OSError as error:
        return f"no folder can be made for a job: {error}"


def _memory() -> str:
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):  # no Linux, or an odd one: then nothing is known
        return ""
    if available >= LEAST_MEMORY:
        return ""
    return f"{available >> 20} MiB of memory are available, less than the {LEAST_MEMORY >> 20} MiB that a job takes at least"


def _compiler() -> str:
    if cxx() is not None:
        return ""
    return "there is no C++ compiler that torch.compile could start: install g++, or name another one in CXX"


def _interpreter(python: Path) -> str:
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=INTERPRETER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{python} does not run: {error}"
    if done.returncode != 0:
        return f"{python} does not run: it ended with status {done.returncode}"
    try:
        require_torch(python)
    except MissingTool as error:
        return str(error)
    return ""
