"""Whether this machine can do a job at all: a failure here proves nothing about a script.

Used by workers and `minimizer doctor`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from minimizer.engine.child.scratch_disk import why_full
from minimizer.errors import MissingTool
from minimizer.sandbox import cxx, require_torch, try_bubblewrap, why_no_bubblewrap
from minimizer.settings import Settings

LEAST_MEMORY = 1 << 30
"""Bytes that must be available: torch and the compiler take as much before a script has done anything."""
INTERPRETER_SECONDS = 60.0
MEMINFO = Path("/proc/meminfo")


def needs_sandbox(settings: Settings) -> bool:
    """Whether jobs need bubblewrap here.

    If it is missing from the beginning and optional, that is a choice; if it stops working, it is trouble. With access
    control on it is required, whatever the sandbox settings.
    """
    is_required = settings.sandbox == "required" or settings.access == "on"
    return is_required or (settings.sandbox != "off" and why_no_bubblewrap() is None)


def why_unfit(interpreters: Iterable[Path], *, sandboxed: bool) -> str:
    """The first problem: disk, memory, sandbox, compiler, interpreters; empty without one."""
    return (
        _disk()
        or _memory()
        or (sandboxed and try_bubblewrap())
        or _compiler()
        or next(filter(None, map(_interpreter, interpreters)), "")
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
