"""The strong sandbox: bubblewrap with every namespace unshared."""

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
"""System folders (programs, libraries, compilers) that every script sees read-only."""
PACKAGE_SETTINGS = (Path("/usr/pip.conf"), Path("/usr/local/pip.conf"))
"""pip's settings of interpreters whose prefix is a system folder; hidden, since an index URL in them may contain a password."""
TRY_SECONDS = 20.0
"""How long an empty sandbox may take."""
_ROOT_NOTICE = (
    "The number of processes in the sandbox is not bounded: the kernel exempts root, and control groups cannot be "
    "written here. Run as an ordinary user."
)
_FILTER_NOTICE = f"No filter of system calls: there is none for {platform.machine()} yet."


class Bubblewrap(Sandbox):
    """Runs commands in new namespaces for users, processes, mounts, network, IPC and host name."""

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
        # bwrap itself is outside; its init process is inside. When init ends, the kernel kills everything in its process
        # namespace, daemons included.
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
            # The options, with the environment, are passed in a file: all users of the machine can read a command line, and
            # LD_PRELOAD in the environment of bwrap itself would be loaded outside the sandbox.
            options_fd = _file(theirs, "\0".join([*options, ""]).encode())
            process = command.popen(
                [bwrap(), "--args", str(options_fd), "--", *command.argv],
                {},
                extra_fds=[options_fd, info_end, gate_end, *private_fds, *filter_fds],
            )
            theirs.close()
            pid = None
            try:
                pid = _read_init(info)
                self._inits[process] = _Init(pid, command, self._group)
                if "memory" not in self._inits[process].bounded:
                    self._running[process] = pid
                os.write(gate, b"1")
            except BaseException as error:
                # Now, since bwrap takes a gate that closes for the word to start, and no limit may be set yet.
                if pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.kill(process)
                if isinstance(error, ProcessLookupError | BrokenPipeError):
                    raise WorkerTrouble(f"the sandbox did not come up: bwrap ended with {process.returncode}") from None
                raise
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
    """The sandbox's init process, held by a descriptor so that its id cannot be reused for another process."""

    def __init__(self, pid: int, command: Command, group: JobGroup) -> None:
        self._pidfd = os.pidfd_open(pid)
        try:
            self.bounded = group.enter(pid)
        except BaseException:
            os.close(self._pidfd)
            raise
        self._release = weakref.finalize(self, _release, self._pidfd, group)
        for which, limit in command.limits:
            resource.prlimit(pid, which, (limit, limit))

    def signal(self) -> None:
        """Kill init without waiting. Does nothing if it has ended."""
        with suppress(ProcessLookupError, OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def kill(self) -> None:
        self.signal()
        select.select([self._pidfd], [], [])  # readable once everything in its namespace is gone
        self._release()


def _release(pidfd: int, group: JobGroup) -> None:
    os.close(pidfd)
    group.leave()


def _file(owner: ExitStack, content: bytes) -> int:
    """A descriptor of an anonymous file with this content, for a child to read."""
    descriptor = os.memfd_create("minimizer")
    owner.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_init(info: int) -> int:
    """The process id of the sandbox's init, in our namespace.

    Raises:
        ProcessLookupError: bwrap ended before it had started one.
    """
    text = b""
    while b"}" not in text:
        chunk = os.read(info, 4096)
        if not chunk:
            raise ProcessLookupError
        text += chunk
    return int(json.loads(text)["child-pid"])


def why_no_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used here, or None if it can.

    Once it has worked it counts as working: what fails later is trouble of the machine, and no reason to go without a sandbox.
    """
    try:
        require_bubblewrap()
    except MissingTool as error:
        return str(error)
    return None


@functools.cache  # which keeps no exception: what fails for once is tried again
def require_bubblewrap() -> None:
    """Try bubblewrap, unless it has already worked.

    Raises:
        MissingTool: it cannot be used; the message says why.
    """
    if trouble := try_bubblewrap():
        raise MissingTool(trouble)


def try_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used now, or None if it can. Found by starting it, since a machine may forbid user namespaces."""
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
    try:
        errors = process.communicate(timeout=TRY_SECONDS)[1].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        return f"bubblewrap does not answer within {TRY_SECONDS:g} s"
    finally:
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
    """Options and descriptors for the system call filter; empty if there is none for this processor."""
    machine = syscall_numbers.architecture()
    if machine is None:
        return [], []
    descriptor = _file(owner, seccomp.program(machine))
    return ["--seccomp", str(descriptor)], [descriptor]


def _namespaces(command: Command) -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in bwrap_help():  # since 0.8; nested user namespaces expose the most kernel code
        options.append("--disable-userns")
    if command.network:
        options.append("--share-net")
    else:
        options += ["--hostname", "sandbox"]
    return options


def _system(command: Command) -> list[str]:
    """Options that show the system's programs, libraries and compilers read-only, with new /dev, /proc and /tmp, and nothing else."""
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
    # torch's cpuinfo and thread pools read the number and kind of cores here.
    options += ["--ro-bind-try", "/sys/devices/system", "/sys/devices/system"]
    # /proc/sys checks the user id and not capabilities: root without capabilities could still write there.
    options += ["--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys", "--dev", "/dev"]
    options += _accelerators(command.devices)
    # RLIMIT_DATA does not count memory file systems, so they get a size of their own.
    size = ["--size", str(command.memory_bytes)] if command.memory_bytes and "--size" in bwrap_help() else []
    return [*options, *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *size, "--tmpfs", "/tmp"]


def _accelerators(devices: Devices) -> list[str]:
    """Options that show the device files of the job's GPUs, and hide the driver's facts in /proc from jobs without a GPU."""
    options: list[str] = []
    for node in map(str, devices.nodes()):
        options += ["--dev-bind", node, node]
    if not devices.gpus and DRIVER_FACTS.is_dir():
        options += ["--tmpfs", str(DRIVER_FACTS)]
    return options


def _private_files(owner: ExitStack, command: Command) -> tuple[list[str], list[int]]:
    """Options and descriptors for generated files of /etc, which do not reveal this machine's users and hosts."""
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
    """Bind options, parents before children, so that a writable folder may lie in a readable one and the other way round."""
    flags: dict[Path, str] = {}
    for flag, paths in (("--ro-bind", command.read), ("--bind", command.write)):
        for path in paths:
            flags[path.absolute()] = flags[path.resolve()] = flag  # at the link's path and at its target
    options: list[str] = []
    mounted: dict[Path, str] = {Path("/usr"): "--ro-bind"}
    for path in sorted(flags, key=lambda path: len(path.parts)):
        above = next((mounted[parent] for parent in (path, *path.parents) if parent in mounted), None)
        if above != flags[path]:
            options += [flags[path], str(path), str(path)]
            mounted[path] = flags[path]
    return options
