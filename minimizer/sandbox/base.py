"""What every sandbox offers."""

from __future__ import annotations

import functools
import os
import resource
import signal
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

from minimizer.errors import InvalidOption, MemoryExceeded
from minimizer.sandbox import footprint, gpu_processes, keyring
from minimizer.sandbox.cgroup import Bounds, JobGroup, memory_limit
from minimizer.sandbox.devices import Devices

T = TypeVar("T")
Stream = int | IO[Any] | None
POLL_SECONDS = 0.2
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""Exit statuses of a command that was killed, and of a sandbox in which it was."""
LOOK_COST = 19
"""Between two sums of memory passes so many times what one took: a twentieth of a core at most, however many processes there are."""

HOW_TO_GET_BUBBLEWRAP = (
    "Install it (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)."
)


def default_bounds(memory_bytes: int | None = None) -> Bounds:
    """What a job may take: three quarters of the machine's memory, or of its container's, unless it is said.

    Processes and threads: some hundreds, and on a machine of many cores as many as all trials that run at once have, each with a thread
    for every core, and again as many for those that wait.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    cores = len(os.sched_getaffinity(0))
    return Bounds(memory_bytes or min(machine, memory_limit() or machine) * 3 // 4, 512 + 2 * cores * cores)


@dataclass(frozen=True)
class Command:
    """What ``Sandbox.start`` was asked for."""

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
        """Resource limits, none above what we have ourselves.

        RLIMIT_DATA and not RLIMIT_AS: torch reserves far more address space than it uses (CUDA: terabytes), while
        RLIMIT_DATA counts what can really be written to.
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
        """Start ``argv``, the command itself or what confines it; if it is confined, with a kernel keyring of its own."""

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
    """One thread that starts all sandboxes and lives as long as we do.

    "Dies with its parent" means, to the kernel, with the *thread* that started it; a caller's thread may well end first. What is
    confined has a thread apart, which leaves our session keyring for good.
    """
    return ThreadPoolExecutor(1, "sandbox")


os.register_at_fork(after_in_child=_nursery.cache_clear)


class Sandbox(ABC):
    """Starts untrusted commands, and ends them with all their offspring."""

    name: ClassVar[str]
    is_strong: ClassVar[bool]
    notice: str

    def __init__(
        self,
        memory_bytes: int | None = None,
        devices: Devices = Devices(),  # noqa: B008 - it is frozen
        bounds: Bounds | None = None,
    ) -> None:
        """``memory_bytes`` holds for each process, ``bounds`` for all processes of all commands together."""
        self._memory_bytes = memory_bytes
        self.devices = devices
        self.bounds = bounds or default_bounds()
        self._group = JobGroup(self.bounds)
        self._running: weakref.WeakKeyDictionary[subprocess.Popen[bytes], int] = weakref.WeakKeyDictionary()
        """The first process of each command that nothing but `watch` bounds in memory."""
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
        """Start a command. ``file_bytes`` holds for each file.

        Which GPUs it may use is the sandbox's to say, and not ``env``'s.

        Raises:
            InvalidOption: a path to bind does not exist, or would undo the sandbox.
            WorkerTrouble: the sandbox did not come up.
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
        """Look at the memory of all commands together; where no control group counts it, add it up and end them if it is too much.

        Raises:
            MemoryExceeded: it was used up, now or before.
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

    @abstractmethod
    def end(self) -> None:
        """End all commands and all that came of them."""

    @abstractmethod
    def _launch(self, command: Command) -> subprocess.Popen[bytes]: ...

    def finish(self, process: subprocess.Popen[bytes], seconds: float, watch: Callable[[], None]) -> int | None:
        """Wait for a command and end it with all that came of it; its exit status, None if it was not over after ``seconds``.

        ``watch`` is called while waiting; what it raises ends the command at once, and is raised here.

        Raises:
            MemoryExceeded: the memory of the job was used up meanwhile.
        """
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                watch()
                with suppress(subprocess.TimeoutExpired):
                    status = process.wait(min(left, POLL_SECONDS))
                    self.watch()  # what was ended for want of memory has said nothing
                    return status
            return None
        finally:
            self.kill(process)

    @abstractmethod
    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End the command and all that came of it, and wait for that. Harmless when it has ended already."""


def _refuse_bad_bind(path: Path) -> None:
    if not path.exists():
        raise InvalidOption(f"{path} cannot be opened to the script: it does not exist")
    if str(path.resolve()) in ("/", "/proc", "/dev", "/sys"):
        raise InvalidOption(f"{path} cannot be opened to the script: that would undo the sandbox. Name a folder in it.")


def values(running: weakref.WeakKeyDictionary[subprocess.Popen[bytes], T]) -> list[T]:
    """What is kept for each command that has not ended, while other threads start and end some.

    The number of one that has ended may be another process's by now.
    """
    processes = [process for reference in running.keyrefs() if (process := reference()) is not None]
    kept = [running.get(process) for process in processes if process.returncode is None]
    return [value for value in kept if value is not None]


def pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """A pipe whose ends are closed with two different owners, such as ours and the child's."""
    reader, writer = os.pipe()
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer
