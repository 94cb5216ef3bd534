"""Finds the processes on a GPU, and kills those that our jobs have left there; others are not touched.

Every process that a sandbox with a GPU starts has `OWNER` in its environment, which names the minimizer process that started it. A
process is ours to kill if its owner is this process, or has died (a killed worker). GPU memory is free once nvidia-smi no longer
lists the process, which is a moment after its end.
"""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.sandbox.gpus import Gpu, ask_smi

OWNER = "MINIMIZER_OWNER"
FREE_SECONDS = 30.0
"""Longest wait until the memory of killed processes is free."""
APART_SECONDS = 0.5
"""Interval between two calls of nvidia-smi while waiting."""
QUERY = "--query-compute-apps=pid,gpu_uuid,used_memory,process_name"


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds GPU memory, in MiB; ``memory`` and ``name`` are nvidia-smi's texts, empty if it has none."""

    pid: int
    gpu: str
    memory: str
    name: str

    @property
    def text(self) -> str:
        """Id, name and memory, for a message."""
        known = ", ".join(filter(None, (self.name, self.memory and f"{self.memory} MiB")))
        return f"process {self.pid} ({known})" if known else f"process {self.pid}"


def mark() -> str:
    """A unique mark of this process: id, start time, and process namespace."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_namespace()}"


def processes_on(gpus: Sequence[Gpu]) -> list[GpuProcess]:
    """The processes that nvidia-smi lists for these GPUs; for a MIG instance those of the whole card.

    None in a container that does not share the machine's process ids.

    Raises:
        NoGpus: nvidia-smi does not answer.
    """
    wanted = {uuid for gpu in gpus for uuid in (gpu.uuid, gpu.card)}
    found = []
    for line in ask_smi(QUERY, "--format=csv,noheader,nounits").splitlines():
        pid, uuid, memory, name = (part.strip() for part in (line + ",,,").split(",", 3))
        if pid.isdecimal() and uuid in wanted:
            found.append(GpuProcess(int(pid), uuid, _said(memory), _plain(Path(_said(name.strip(", "))).name)))
    return found


def free_gpus(gpus: Sequence[Gpu], seconds: float = FREE_SECONDS) -> list[GpuProcess]:
    """Kill our processes on these GPUs and wait up to ``seconds`` until their memory is free. Returns the remaining processes.

    Raises:
        NoGpus: nvidia-smi does not answer.
    """
    deadline = time.monotonic() + seconds
    ended: set[int] = set()
    while True:
        left = processes_on(gpus)
        ours = {process.pid for process in left if process.pid in ended or _end_if_ours(process.pid)}
        ended |= ours
        if not ours or time.monotonic() >= deadline:
            return left
        time.sleep(min(APART_SECONDS, max(0.0, deadline - time.monotonic())))


def _end_if_ours(pid: int) -> bool:
    """Kill a process whose owner is this process or one that has ended. Returns whether it was killed."""
    try:
        held = os.pidfd_open(pid)  # before its environment is read, since the id may be reused
    except OSError:
        return False
    try:
        owner = _owner(pid)
        if owner is None or not (owner == mark() or _is_gone(owner)):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
        select.select([held], [], [], FREE_SECONDS)
        return True
    except OSError:  # it has ended, or belongs to another user
        return False
    finally:
        os.close(held)


def _owner(pid: int) -> str | None:
    for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == OWNER.encode():
            return value.decode(errors="replace")
    return None


def _is_gone(owner: str) -> bool:
    """Whether the process with this mark has ended; False in another process namespace, where that is unknown."""
    pid, _, rest = owner.partition("-")
    started, _, namespace = rest.partition("-")
    return pid.isdecimal() and namespace == _namespace() and _started(int(pid)) != started


def _said(text: str) -> str:
    """A value of nvidia-smi; empty for a bracketed word, such as ``[No data]`` for the name of an ending process."""
    return "" if text.startswith("[") else text


def _plain(name: str) -> str:
    """A process name that is safe to print, since a process can choose any name for itself."""
    return re.sub(r"[^\w.+-]", "?", name)[:60]


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(pid: int) -> str:
    """Start time of a process in kernel ticks; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""
