"""The strong sandbox: bubblewrap, with namespaces of its own for everything."""

from __future__ import annotations

import functools
import json
import os
import platform
import resource
import select
import shutil
import signal
import subprocess
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

from minimizer.errors import MissingTool, WorkerTrouble
from minimizer.sandbox import cgroup, seccomp, syscall_numbers
from minimizer.sandbox.base import HOW_TO_GET_BUBBLEWRAP, Command, Sandbox, pipe, values
from minimizer.sandbox.cgroup import Bounds, JobGroup
from minimizer.sandbox.devices import Devices

DRIVER_FACTS = Path("/proc/driver/nvidia")
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs, libraries and compilers, which every script sees."""
PACKAGE_SETTINGS = (Path("/usr/pip.conf"), Path("/usr/local/pip.conf"))
"""Of an interpreter whose prefix is a folder of the system: the address of an index there may hold a password."""
_ROOT_NOTICE = (
    "The number of processes in the sandbox is not bounded: the kernel exempts root, and control groups cannot be "
    "written here. Run as an ordinary user."
)
_FILTER_NOTICE = f"No filter of system calls: there is none for {platform.machine()} yet."


class Bubblewrap(Sandbox):
    """Namespaces of its own for everything: users, processes, mounts, network, IPC, host name."""

    name = "bubblewrap"
    is_strong = True

    def __init__(
        self,
        memory_bytes: int | None = None,
        devices: Devices = Devices(),  # noqa: B008
        bounds: Bounds | None = None,
    ) -> None:
        super().__init__(memory_bytes, devices, bounds)
        bounded = "" if os.getuid() != 0 or "pids" in cgroup.bounded() else _ROOT_NOTICE
        filtered = "" if syscall_numbers.architecture() is not None else _FILTER_NOTICE
        self.notice = " ".join(filter(None, (bounded, filtered)))
        # bwrap itself is outside; what counts is the init that it leaves inside. When that one ends, the kernel kills
        # everything in its process namespace, wherever it hid.
        self._inits: weakref.WeakKeyDictionary[subprocess.Popen[bytes], _Init] = weakref.WeakKeyDictionary()

    def _launch(self, command: Command) -> subprocess.Popen[bytes]:
        with ExitStack() as ours, ExitStack() as theirs:
            info, info_end = pipe(ours, theirs)
            gate_end, gate = pipe(theirs, ours)
            private, private_fds = _private_files(theirs, command)
            filtering, filter_fds = _filter(theirs)
            options = ["--info-fd", str(info_end), "--block-fd", str(gate_end)]
            options += [*filtering, *_namespaces(command), *_system(command), *private, *_binds(command)]
            options += ["--remount-ro", "/", "--chdir", str(command.cwd), "--clearenv"]
            for name, value in command.env.items():
                options += ["--setenv", name, value]
            # The options go through a file, the environment among them: a command line is readable for all users of
            # the machine, and LD_PRELOAD in the environment of bwrap itself would be loaded outside the sandbox.
            options_fd = _file(theirs, "\0".join([*options, ""]).encode())
            process = command.popen(
                [bwrap(), "--args", str(options_fd), "--", *command.argv],
                {},
                extra_fds=[options_fd, info_end, gate_end, *private_fds, *filter_fds],
            )
            theirs.close()
            try:
                pid = _read_init(info)
                self._inits[process] = _Init(pid, command, self._group)
                if "memory" not in self._inits[process].bounded:
                    self._running[process] = pid
                os.write(gate, b"1")
            except (ProcessLookupError, BrokenPipeError):
                self.kill(process)
                raise WorkerTrouble(f"the sandbox did not come up: bwrap ended with {process.returncode}") from None
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        self._running.pop(process, None)
        init = self._inits.pop(process, None)
        if init is not None:
            init.kill()

    def end(self) -> None:
        for init in values(self._inits):
            init.signal()


class _Init:
    """The first process inside, held by a descriptor so that its number cannot come to mean another one."""

    def __init__(self, pid: int, command: Command, group: JobGroup) -> None:
        self._pidfd = os.pidfd_open(pid)
        self.bounded = group.enter(pid)
        self._release = weakref.finalize(self, _release, self._pidfd, group)
        for which, limit in command.limits:
            resource.prlimit(pid, which, (limit, limit))

    def signal(self) -> None:
        """End it, without waiting for that. Harmless when it has ended."""
        with suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def kill(self) -> None:
        self.signal()
        select.select([self._pidfd], [], [])  # readable as soon as everything in its namespace is gone
        self._release()


def _release(pidfd: int, group: JobGroup) -> None:
    os.close(pidfd)
    group.leave()


def _file(owner: ExitStack, content: bytes) -> int:
    """A descriptor from which a child can read the content."""
    descriptor = os.memfd_create("minimizer")
    owner.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_init(info: int) -> int:
    """The process id, as we see it, of the sandbox's init.

    Raises:
        ProcessLookupError: bwrap gave up before there was one.
    """
    text = b""
    while b"}" not in text:
        chunk = os.read(info, 4096)
        if not chunk:
            raise ProcessLookupError
        text += chunk
    return int(json.loads(text)["child-pid"])


@functools.cache
def why_no_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used here, or None if it can: as `try_bubblewrap` says when it is first asked."""
    return try_bubblewrap()


def try_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used just now, or None if it can. Tried, since a machine may forbid user namespaces."""
    try:
        sandbox = Bubblewrap()
        process = sandbox.start(
            ["true"],
            cwd=Path("/"),
            read=(),
            write=(),
            env={"PATH": os.defpath},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    except MissingTool:
        return "bubblewrap is not installed"
    except OSError as error:
        return f"bubblewrap does not start ({error})"
    except WorkerTrouble:
        return "bubblewrap cannot create namespaces here"
    errors = process.communicate()[1].decode(errors="replace").strip()
    sandbox.kill(process)
    return None if process.returncode == 0 else f"bubblewrap does not work here ({errors})"


@functools.cache
def bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise MissingTool(f"bubblewrap is not installed. {HOW_TO_GET_BUBBLEWRAP}")
    return found


@functools.cache
def bwrap_help() -> str:
    return subprocess.run([bwrap(), "--help"], capture_output=True, text=True, check=False).stdout


def _filter(owner: ExitStack) -> tuple[list[str], list[int]]:
    """The filter of system calls, where there is one for this processor."""
    machine = syscall_numbers.architecture()
    if machine is None:
        return [], []
    descriptor = _file(owner, seccomp.program(machine))
    return ["--seccomp", str(descriptor)], [descriptor]


def _namespaces(command: Command) -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in bwrap_help():  # since 0.8; a nested user namespace is the kernel's widest open flank
        options.append("--disable-userns")
    if command.network:
        options.append("--share-net")
    else:
        options += ["--hostname", "sandbox"]
    return options


def _system(command: Command) -> list[str]:
    """Programs, libraries and compilers of the system read-only; devices, /proc and /tmp of its own. Nothing else."""
    options: list[str] = []
    for folder in map(Path, SYSTEM_FOLDERS):
        if folder.is_symlink():
            options += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            options += ["--ro-bind", str(folder), str(folder)]
    for file in PACKAGE_SETTINGS:
        if file.exists():
            options += ["--ro-bind", os.devnull, str(file)]
    etc = ["ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "nsswitch.conf"]
    if command.network:
        etc += ["hosts", "resolv.conf", "services", "protocols", "ssl", "pki", "ca-certificates"]
    for name in etc:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # torch's cpuinfo and thread pools read the number and the kind of cores here.
    options += ["--ro-bind-try", "/sys/devices/system", "/sys/devices/system"]
    # The kernel's settings ask who writes, not what he may: root without a capability is root to them.
    options += ["--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    options += _accelerators(command.devices)
    # Memory that RLIMIT_DATA does not count must not be without bound.
    size = ["--size", str(command.memory_bytes)] if command.memory_bytes and "--size" in bwrap_help() else []
    return [*options, *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *size, "--tmpfs", "/tmp"]


def _accelerators(devices: Devices) -> list[str]:
    """The device files of a job's own GPUs; from a job without one also what the driver says of them is hidden."""
    options: list[str] = []
    for node in map(str, devices.nodes()):
        options += ["--dev-bind", node, node]
    if not devices.gpus and DRIVER_FACTS.is_dir():
        options += ["--tmpfs", str(DRIVER_FACTS)]
    return options


def _private_files(owner: ExitStack, command: Command) -> tuple[list[str], list[int]]:
    """Files of /etc that show the sandbox itself instead of this machine's users and neighbours."""
    home = command.env.get("HOME", "/tmp")
    contents = {
        "/etc/passwd": f"sandbox:x:{os.getuid()}:{os.getgid()}::{home}:/bin/sh\n",
        "/etc/group": f"sandbox:x:{os.getgid()}:\n",
    }
    if not command.network:
        contents["/etc/hosts"] = "127.0.0.1 localhost sandbox\n"
    options: list[str] = []
    descriptors = []
    for path, content in contents.items():
        descriptor = _file(owner, content.encode())
        descriptors.append(descriptor)
        options += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
    return options, descriptors


def _binds(command: Command) -> list[str]:
    """Parents before children, so that a folder to write in may lie in one to read, and the other way round."""
    flags: dict[Path, str] = {}
    for flag, paths in (("--ro-bind", command.read), ("--bind", command.write)):
        for path in paths:
            flags[path.absolute()] = flags[path.resolve()] = flag  # under a link's name and under its real one
    options: list[str] = []
    mounted: dict[Path, str] = {Path("/usr"): "--ro-bind"}
    for path in sorted(flags, key=lambda path: len(path.parts)):
        above = next((mounted[parent] for parent in (path, *path.parents) if parent in mounted), None)
        if above != flags[path]:
            options += [flags[path], str(path), str(path)]
            mounted[path] = flags[path]
    return options
