"""The GPUs of this worker: which they are, whether jobs can use them, and whose turn it is on each.

A GPU runs one job at a time, in any worker process of the machine. The turn is a lock on a file named after the GPU's
UUID, so that it ends with the process that holds it, however that ends. A worker takes its turn before it claims a job:
waiting afterwards would keep the job from a worker with a free GPU.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from minimizer.errors import InvalidOption
from minimizer.sandbox import Gpu, own_gpus
from minimizer.sandbox.torch_cuda import TorchCuda, torch_on
from minimizer.settings import Settings
from minimizer.store import GpuInfo, Hardware

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class OwnGpus:
    """This worker's GPUs; ``trouble``: why it takes no GPU jobs although it should have a GPU."""

    gpus: tuple[Gpu, ...] = ()
    torch: TorchCuda = field(default_factory=TorchCuda)
    trouble: str = ""

    @property
    def devices(self) -> list[str]:
        """This worker's devices other than the CPU."""
        return ["cuda"] if self.gpus and not self.trouble else []

    @property
    def hardware(self) -> Hardware:
        """The hardware to report to the store."""
        return Hardware(
            gpus=tuple(GpuInfo(uuid=gpu.uuid, name=gpu.name, memory_mib=gpu.memory_mib) for gpu in self.gpus),
            driver=self.gpus[0].driver if self.gpus else "",
            cuda=self.torch.cuda,
            triton=self.torch.triton,
            trouble=self.trouble,
        )


def look(python: Path = Path(sys.executable)) -> OwnGpus:
    """Find the GPUs of this process, and let torch compute something on them."""
    own = own_gpus()
    if own.trouble or not own.gpus:
        return OwnGpus(trouble=own.trouble)
    torch = torch_on(python, own.gpus)
    return OwnGpus(own.gpus, torch, torch.trouble)


def why_gone(gpus: Sequence[Gpu]) -> str:
    """Why a GPU that this worker started with cannot be used any more; empty if all are there."""
    if not gpus:
        return ""
    own = own_gpus()
    gone = sorted({gpu.uuid for gpu in gpus} - {gpu.uuid for gpu in own.gpus})
    if not gone:
        return ""
    return (
        f"GPU {', '.join(gone)} was there when the worker started, and is not now ({own.trouble or 'it is not listed'})"
    )


class Turns:
    """The turns of this worker on its GPUs: all of them, or none."""

    def __init__(self, folder: Path, gpus: Sequence[Gpu], at_once: int = 1) -> None:
        self._folder, self._at_once = folder, at_once
        self._gpus = sorted(gpus, key=lambda gpu: gpu.uuid)
        if gpus:
            _make(folder)

    @classmethod
    def of(cls, settings: Settings, gpus: Sequence[Gpu]) -> Turns:
        """The turns that the settings give.

        Raises:
            InvalidOption: the folder of the locks cannot be used.
        """
        return cls(settings.gpu_locks, gpus, settings.gpu_jobs)

    @contextmanager
    def taken(self, stopping: threading.Event) -> Iterator[bool]:
        """Wait for the GPUs, and keep them inside; False once the worker is ``stopping``. Without GPUs there is no wait."""
        with ExitStack() as held:
            said = False
            while not stopping.is_set():
                busy = self._take(held)
                if busy is None:
                    break
                if not said:
                    log.info("waiting for GPU %s: another worker of this machine has a job on it", busy)
                    said = True
                stopping.wait(POLL_SECONDS)
            yield not stopping.is_set()

    def _take(self, held: ExitStack) -> str | None:
        """Lock a place on every GPU, or none; the GPU that is busy, if one is. Never waits, so that no two wait for each other."""
        with ExitStack() as taken:
            for gpu in self._gpus:
                places = (self._folder / f"{gpu.uuid}.{place}" for place in range(self._at_once))
                lock = next((lock for lock in map(_lock, places) if lock is not None), None)
                if lock is None:
                    return gpu.uuid
                taken.callback(os.close, lock)
            held.push(taken.pop_all())
        return None


def _make(folder: Path) -> None:
    """A folder in which every user's worker may put locks, and take none away from others."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
            folder.chmod(0o1777)
        os.close(_open(folder / "probe"))
    except OSError as error:
        raise InvalidOption(
            f"{folder} cannot hold the locks of GPUs ({error.strerror}): name in MINIMIZER_GPU_LOCKS a folder that all workers of this "
            "machine can write to"
        ) from None


def _lock(file: Path) -> int | None:
    """A locked descriptor, which frees the lock when it is closed, by whomever; None if another has it."""
    descriptor = _open(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _open(file: Path) -> int:
    """Whoever comes first makes the file; others open it, whosever it is. No link is followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileExistsError):
        made = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o644)
        os.fchmod(made, 0o644)
        return made
    return os.open(file, flags)
