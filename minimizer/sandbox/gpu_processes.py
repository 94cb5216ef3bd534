"""The processes on a GPU: those that a job of ours has left there are ended, and all others are left alone.

Every process that a sandbox with a GPU starts carries `OWNER` in its environment: which process of ours started it. One whose owner is
this process, or has died (a worker that was killed), is ours to end. A GPU's memory is free once nvidia-smi lists its process no more,
which is a moment after its end.
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
"""How long memory of ended processes is waited for."""
APART_SECONDS = 0.5
QUERY = "--query-compute-apps=pid,gpu_uuid,used_memory,process_name"


@dataclass(frozen=True)
class GpuProcess:
    """A process that holds memory of a GPU: ``memory`` as nvidia-smi writes it, in MiB."""

    pid: int
    gpu: str
    memory: str
    name: str

    @property
    def text(self) -> str:
        """For a reader."""
        return f"process {self.pid} ({self.name}, {self.memory} MiB)"


def mark() -> str:
    """What names this process beyond its own life: its id, when it started, and the namespace in which the id counts."""
    return f"{os.getpid()}-{_started(os.getpid())}-{_namespace()}"


def processes_on(gpus: Sequence[Gpu]) -> list[GpuProcess]:
    """The processes that nvidia-smi lists for these GPUs; of a MIG instance those of its whole card.

    In a container without the machine's process ids it lists none.

    Raises:
        NoGpus: nvidia-smi does not answer.
    """
    wanted = {uuid for gpu in gpus for uuid in (gpu.uuid, gpu.card)}
    found = []
    for line in ask_smi(QUERY, "--format=csv,noheader,nounits").splitlines():
        pid, uuid, memory, name = (part.strip() for part in (line + ",,,").split(",", 3))
        if pid.isdecimal() and uuid in wanted:
            found.append(GpuProcess(int(pid), uuid, memory, _plain(Path(name.strip(", ")).name)))
    return found


def free_gpus(gpus: Sequence[Gpu], seconds: float = FREE_SECONDS) -> list[GpuProcess]:
    """End what is ours on these GPUs and wait, at most ``seconds``, until its memory is free; returns what is left, ours or not.

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
    """End a process that carries the mark of this process, or of one that is no more; whether it did."""
    try:
        held = os.pidfd_open(pid)  # before its environment is read: the number must not come to mean another one
    except OSError:
        return False
    try:
        owner = _owner(pid)
        if owner is None or not (owner == mark() or _is_gone(owner)):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
        select.select([held], [], [], FREE_SECONDS)
        return True
    except OSError:  # it has ended, or is another user's
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
    """Whether the process with this mark has ended; one in another namespace, such as a container's, cannot be asked after."""
    pid, _, rest = owner.partition("-")
    started, _, namespace = rest.partition("-")
    return pid.isdecimal() and namespace == _namespace() and _started(int(pid)) != started


def _plain(name: str) -> str:
    """A process may call itself what it likes."""
    return re.sub(r"[^\w.+-]", "?", name)[:60]


def _namespace() -> str:
    return str(Path("/proc/self/ns/pid").readlink())


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
