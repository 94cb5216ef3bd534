"""`Sandbox`: the interface and shared behaviour of all sandboxes, with the bounds of a job."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

from minimizer.errors import InvalidOption, MemoryExceeded, WorkerTrouble
from minimizer.sandbox import footprint, gpu_processes, keyring
from minimizer.sandbox.cgroup import Bounds, JobGroup, memory_limit
from minimizer.sandbox.devices import Devices

T = TypeVar("T")
Stream = int | IO[Any] | None
POLL_SECONDS = 0.2
"""Interval at which `Sandbox.finish` calls ``watch``."""
LOOK_COST = 19
"""Pause between two memory measurements, in durations of the last one: measuring then takes at most a twentieth of a core, however
many processes there are."""

HOW_TO_GET_BUBBLEWRAP = (
    "Install it (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)."
)


def default_bounds(memory_bytes: int | None = None) -> Bounds:
    """Default bounds of a job: ``memory_bytes``, or three quarters of the memory of the machine or its container.

    Processes and threads: 512, plus twice the square of the number of cores, since each trial that runs at once has a thread for
    every core, and as many again may wait.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    cores = len(os.sched_getaffinity(0))
    return Bounds(memory_bytes or min(machine, memory_limit() or machine) * 3 // 4, 512 + 2 * cores * cores)


@dataclass(frozen=True)
class Command:
    """The arguments of one ``Sandbox.start``."""

    argv: Sequence[str]
    cwd: Path
    read: Sequence[Path]
    write: Sequence[Path]
    env: Mapping[str, str]
    network: bool
    pass_fds: Sequence[int]
    stdin: Stream
    stdout: Stream
    stderr: Stream
    memory_bytes: int | None
    file_bytes: int
    processes: int
    devices: Devices

    @property
    def limits(self) -> list[tuple[int, int]]:
        """Resource limits as (resource, value), none above our own hard limits.

        RLIMIT_DATA and not RLIMIT_AS: torch reserves far more address space than it uses (CUDA: terabytes), while
        RLIMIT_DATA counts only writable private memory.
        """
        wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, self.file_bytes)]
        wanted.append((resource.RLIMIT_NPROC, self.processes))
        if self.memory_bytes is not None:
            wanted.append((resource.RLIMIT_DATA, self.memory_bytes))
        allowed = ((which, value, resource.getrlimit(which)[1]) for which, value in wanted)
        return [
            (which, value if hard == resource.RLIM_INFINITY else min(value, hard)) for which, value, hard in allowed
        ]

    def popen(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        extra_fds: Sequence[int] = (),
        cwd: Path | None = None,
        is_confined: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start ``argv``, which is the command or the program that confines it; a confined one gets its own kernel keyring."""

        def start() -> subprocess.Popen[bytes]:
            if is_confined:
                keyring.join_new_session()
            return subprocess.Popen(
                argv,
                cwd=cwd,
                env=env,
                stdin=self.stdin,
                stdout=self.stdout,
                stderr=self.stderr,
                pass_fds=(*self.pass_fds, *extra_fds),
                start_new_session=True,
            )

        return _nursery(is_confined).submit(start).result()


@functools.cache
def _nursery(is_confined: bool) -> ThreadPoolExecutor:
    """A thread that starts all commands and lives as long as this process.

    To the kernel, "dies with its parent" means with the *thread* that started it, and a caller's thread may end first. Confined
    commands have a separate thread, which leaves our session keyring for good.
    """
    return ThreadPoolExecutor(1, "sandbox")


os.register_at_fork(after_in_child=_nursery.cache_clear)


class Sandbox(ABC):
    """Starts untrusted commands, and ends them with all their descendants."""

    name: ClassVar[str]
    is_strong: ClassVar[bool]
    notice: str

    def __init__(
        self,
        memory_bytes: int | None = None,
        devices: Devices = Devices(),  # noqa: B008 - it is frozen
        bounds: Bounds | None = None,
    ) -> None:
        """``memory_bytes`` limits each process, ``bounds`` all processes of all commands together."""
        self._memory_bytes = memory_bytes
        self.devices = devices
        self.bounds = bounds or default_bounds()
        self._group = JobGroup(self.bounds)
        self._running: weakref.WeakKeyDictionary[subprocess.Popen[bytes], int] = weakref.WeakKeyDictionary()
        """First process id of each command whose memory is bounded by `watch` only, and not by a control group."""
        self._looking = threading.Lock()
        self._exceeded = False
        self._next_look = 0.0

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        read: Sequence[Path],
        write: Sequence[Path],
        env: Mapping[str, str],
        network: bool = False,
        pass_fds: Sequence[int] = (),
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
        file_bytes: int = 8 << 30,
    ) -> subprocess.Popen[bytes]:
        """Start a command. ``file_bytes`` limits the size of each file.

        The sandbox's devices decide which GPUs it may use, and override ``env``.

        Raises:
            InvalidOption: a path to bind does not exist, or would undo the sandbox.
            WorkerTrouble: the sandbox did not start.
        """
        for path in (*read, *write):
            _refuse_bad_bind(path)
        owner = {gpu_processes.OWNER: gpu_processes.mark()} if self.devices.gpus else {}
        env = {**env, **self.devices.environment, **owner}
        return self._launch(
            Command(
                argv,
                cwd,
                read,
                write,
                env,
                network,
                pass_fds,
                stdin,
                stdout,
                stderr,
                self._memory_bytes,
                file_bytes,
                self.bounds.processes,
                self.devices,
            )
        )

    def watch(self) -> None:
        """Check the memory of all commands together, by the control group or as a sum, and kill them if it is exceeded.

        Raises:
            MemoryExceeded: the bound was exceeded, now or earlier.
            WorkerTrouble: the kernel killed one of them for lack of memory, although the bound was not exceeded.
        """
        with self._looking:
            began = time.monotonic()
            if not self._exceeded and began >= self._next_look and (uncounted := values(self._running)):
                self._exceeded = footprint.exceeds(uncounted, self.bounds.memory_bytes)
                self._next_look = time.monotonic() + LOOK_COST * (time.monotonic() - began)
        if self._exceeded or self._group.look():
            self.end()
            raise MemoryExceeded(
                f"its processes took more memory than the {self.bounds.memory_bytes >> 20} MiB that a job may take"
            )
        if self._group.was_starved:
            self.end()
            raise WorkerTrouble(
                "the kernel ended a process of the job for want of memory, and the job had taken no more than it may"
            )

    @abstractmethod
    def end(self) -> None:
        """End all commands and their descendants."""

    @abstractmethod
    def _launch(self, command: Command) -> subprocess.Popen[bytes]: ...

    def finish(self, process: subprocess.Popen[bytes], seconds: float, watch: Callable[[], None]) -> int | None:
        """Wait for a command, then kill it and its descendants. Returns its exit status, or None if it did not end in ``seconds``.

        ``watch`` is called while waiting; an exception from it ends the command at once, and is raised here.

        Raises:
            MemoryExceeded: the job's memory was exceeded meanwhile.
            WorkerTrouble: the machine's was.
        """
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                watch()
                with suppress(subprocess.TimeoutExpired):
                    status = process.wait(min(left, POLL_SECONDS))
                    self.watch()  # a command killed for its memory gives no other sign of that
                    return status
            return None
        finally:
            self.kill(process)

    @abstractmethod
    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the command and its descendants, and wait until they are gone. Does nothing if it has already ended."""


def _refuse_bad_bind(path: Path) -> None:
    if not path.exists():
        raise InvalidOption(f"{path} cannot be opened to the script: it does not exist")
    if str(path.resolve()) in ("/", "/proc", "/dev", "/sys"):
        raise InvalidOption(f"{path} cannot be opened to the script: that would undo the sandbox. Name a folder in it.")


def values(running: weakref.WeakKeyDictionary[subprocess.Popen[bytes], T]) -> list[T]:
    """The values of commands that have not ended. Safe while other threads start and end commands.

    Ended commands are left out, since their process ids may belong to other processes by now.
    """
    processes = [process for reference in running.keyrefs() if (process := reference()) is not None]
    kept = [running.get(process) for process in processes if process.returncode is None]
    return [value for value in kept if value is not None]


def pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed by two different owners, such as ours and the child's."""
    reader, writer = os.pipe()
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer
