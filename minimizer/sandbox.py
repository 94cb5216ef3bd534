"""Where untrusted code runs: bubblewrap, or plain limits where that is not to be had, or nothing at all on demand.

The user's script is hostile, and so is all that shares a process with it. Whoever starts it here decides what it can
see: the folders in ``read`` and ``write`` at the very paths they have outside, the system's libraries and compilers,
the environment that is passed and nothing else of the caller's. ``kill`` ends everything that came of it.

A sandbox dies with the *thread* that started it (that is how the kernel defines the death signal), so it must be
started from a thread that outlives it. A command that was ended by signal N reports the exit status 128 + N; only in
mode "off" it is -N, as ``subprocess`` has it.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from minimizer import supervisor
from minimizer.errors import ChildFailed, InvalidOption, MissingTool

Mode = Literal["auto", "required", "off"]
Stream = int | IO[Any] | None

HOW_TO_GET_BUBBLEWRAP = (
    "Install it (apt-get install bubblewrap) and allow user namespaces "
    "(sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)."
)


@dataclass(frozen=True)
class _Command:
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
        self, argv: Sequence[str], env: Mapping[str, str], *, extra_fds: Sequence[int] = (), cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
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


class Sandbox(ABC):
    """Starts untrusted commands, and ends them with all their offspring."""

    name: ClassVar[str]
    is_strong: ClassVar[bool]
    notice: str

    @staticmethod
    def choose(mode: Mode) -> Sandbox:
        """The sandbox for a mode; whether bubblewrap works here is tried once per process.

        Raises:
            MissingTool: the mode is "required" and bubblewrap does not work here.
        """
        if mode == "off":
            return Unconfined()
        trouble = why_no_bubblewrap()
        if trouble is None:
            return Bubblewrap()
        if mode == "required":
            raise MissingTool(f"The sandbox is required, but {trouble}. {HOW_TO_GET_BUBBLEWRAP}")
        return Limits(trouble)

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
        memory_bytes: int | None = None,
        file_bytes: int = 8 << 30,
        processes: int = 4096,
    ) -> subprocess.Popen[bytes]:
        """Start a command. ``memory_bytes`` holds for each of its processes, ``processes`` for all of them together.

        Raises:
            InvalidOption: a path to bind does not exist, or would undo the sandbox.
            ChildFailed: the sandbox did not come up.
        """
        for path in (*read, *write):
            _refuse_bad_bind(path)
        return self._launch(
            _Command(
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
                memory_bytes,
                file_bytes,
                processes,
            )
        )

    @abstractmethod
    def _launch(self, command: _Command) -> subprocess.Popen[bytes]: ...

    @abstractmethod
    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End the command and all that came of it, and wait for that. Harmless when it has ended already."""


def _refuse_bad_bind(path: Path) -> None:
    if not path.exists():
        raise InvalidOption(f"{path} cannot be opened to the script: it does not exist")
    if str(path.resolve()) in ("/", "/proc", "/dev", "/sys"):
        raise InvalidOption(f"{path} cannot be opened to the script: that would undo the sandbox. Name a folder in it.")


class Unconfined(Sandbox):
    """No confinement at all, only a process group of its own."""

    name = "off"
    is_strong = False
    notice = "The sandbox is off: the script can do all that you can, on this machine and in your network."

    def _launch(self, command: _Command) -> subprocess.Popen[bytes]:
        return command.popen(command.argv, command.env, cwd=command.cwd)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


class Limits(Sandbox):
    """Resource limits and a supervisor that finds daemons; files, network and other processes stay open."""

    name = "limits"
    is_strong = False

    def __init__(self, trouble: str) -> None:
        self.notice = (
            f"Weak sandbox, since {trouble}: the script runs under resource limits only and can read your files, "
            f"reach your network and signal your processes. {HOW_TO_GET_BUBBLEWRAP}"
        )

    def _launch(self, command: _Command) -> subprocess.Popen[bytes]:
        order = {
            "argv": list(command.argv),
            "cwd": str(command.cwd),
            "env": dict(command.env),
            "limits": [(w, n + _own_tasks() if w == resource.RLIMIT_NPROC else n) for w, n in command.limits],
            "parent": os.getpid(),
            "pass_fds": list(command.pass_fds),
        }
        with ExitStack() as stack:
            order_fd = _file(stack, json.dumps(order).encode())
            return command.popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(order_fd)], {}, extra_fds=[order_fd]
            )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Best effort: a script that first kills its supervisor, which runs as the same user, can leave a daemon."""
        if process.poll() is None:
            supervisor.end_descendants(process.pid)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _own_tasks() -> int:
    """How many threads this user has: outside a user namespace RLIMIT_NPROC counts all of them."""
    tasks = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                tasks += len(os.listdir(entry / "task"))  # noqa: PTH208 - names are enough
        except OSError:  # it ended while we were counting
            continue
    return tasks


class Bubblewrap(Sandbox):
    """Namespaces of its own for everything: users, processes, mounts, network, IPC, host name."""

    name = "bubblewrap"
    is_strong = True
    notice = ""

    # bwrap is outside the sandbox and in it only the init that bwrap leaves there counts: when that one ends, the
    # kernel kills everything in its process namespace, wherever it hid.
    _inits: weakref.WeakKeyDictionary[subprocess.Popen[bytes], int] = weakref.WeakKeyDictionary()

    def _launch(self, command: _Command) -> subprocess.Popen[bytes]:
        with ExitStack() as ours, ExitStack() as theirs:
            info, info_end = _pipe(ours, theirs)
            gate_end, gate = _pipe(theirs, ours)
            private, private_fds = _private_files(theirs, command)
            options = ["--info-fd", str(info_end), "--block-fd", str(gate_end)]
            options += [*_namespaces(command), *_system(command), *private, *_binds(command)]
            options += ["--remount-ro", "/", "--chdir", str(command.cwd), "--clearenv"]
            for name, value in command.env.items():
                options += ["--setenv", name, value]
            # The options go through a file, the environment among them: a command line is readable for all users of
            # the machine, and LD_PRELOAD in the environment of bwrap itself would be loaded outside the sandbox.
            options_fd = _file(theirs, "\0".join([*options, ""]).encode())
            process = command.popen(
                [_bwrap(), "--args", str(options_fd), "--", *command.argv],
                {},
                extra_fds=[options_fd, info_end, gate_end, *private_fds],
            )
            theirs.close()
            init = _read_init(info)
            try:
                if init is None:
                    raise ProcessLookupError
                self._inits[process] = os.pidfd_open(init)
                for which, limit in command.limits:
                    resource.prlimit(init, which, (limit, limit))
                os.write(gate, b"1")
            except (ProcessLookupError, BrokenPipeError):
                self.kill(process)
                raise ChildFailed(f"the sandbox did not come up: bwrap ended with {process.returncode}") from None
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        init = self._inits.pop(process, None)
        if init is None:
            return
        try:
            signal.pidfd_send_signal(init, signal.SIGKILL)
        except ProcessLookupError:
            pass
        select.select([init], [], [])  # readable as soon as everything in its namespace is gone
        os.close(init)


def _pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    readers.callback(os.close, reader)
    writers.callback(os.close, writer)
    return reader, writer


def _file(owner: ExitStack, content: bytes) -> int:
    """A descriptor from which a child can read the content."""
    descriptor = os.memfd_create("minimizer")
    owner.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _read_init(info: int) -> int | None:
    """The process id, as we see it, of the sandbox's init; None if bwrap gave up before there was one."""
    text = b""
    while b"}" not in text:
        chunk = os.read(info, 4096)
        if not chunk:
            return None
        text += chunk
    return int(json.loads(text)["child-pid"])


@functools.cache
def _bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise MissingTool(f"bubblewrap is not installed. {HOW_TO_GET_BUBBLEWRAP}")
    return found


@functools.cache
def _bwrap_help() -> str:
    return subprocess.run([_bwrap(), "--help"], capture_output=True, text=True, check=False).stdout


def _namespaces(command: _Command) -> list[str]:
    options = ["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    if "--disable-userns" in _bwrap_help():  # since 0.8; a nested user namespace is the kernel's widest open flank
        options.append("--disable-userns")
    if command.network:
        options.append("--share-net")
    else:
        options += ["--hostname", "sandbox"]
    return options


def _system(command: _Command) -> list[str]:
    """Programs, libraries and compilers of the system read-only; devices, /proc and /tmp of its own. Nothing else."""
    options = ["--ro-bind", "/usr", "/usr"]
    for folder in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")):
        if folder.is_symlink():
            options += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            options += ["--ro-bind", str(folder), str(folder)]
    etc = ["ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "nsswitch.conf"]
    if command.network:
        etc += ["hosts", "resolv.conf", "services", "protocols", "ssl", "pki", "ca-certificates"]
    for name in etc:
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # torch's cpuinfo and thread pools read the number and the kind of cores here.
    options += ["--ro-bind-try", "/sys/devices/system", "/sys/devices/system"]
    options += ["--proc", "/proc", "--dev", "/dev"]
    for device in _gpu_devices():
        options += ["--dev-bind-try", device, device]
    # Memory that RLIMIT_DATA does not count must not be without bound.
    size = ["--size", str(command.memory_bytes)] if command.memory_bytes and "--size" in _bwrap_help() else []
    return [*options, *size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev", *size, "--tmpfs", "/tmp"]


def _gpu_devices() -> list[str]:
    found = [*Path("/dev").glob("nvidia*"), Path("/dev/kfd"), Path("/dev/dri")]
    return [str(device) for device in found if device.exists()]


def _private_files(owner: ExitStack, command: _Command) -> tuple[list[str], list[int]]:
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


def _binds(command: _Command) -> list[str]:
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


@functools.cache
def why_no_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used here, or None if it can. Tried, since a machine may forbid user namespaces."""
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
    except ChildFailed:
        return "bubblewrap cannot create namespaces here"
    errors = process.communicate()[1].decode(errors="replace").strip()
    sandbox.kill(process)
    return None if process.returncode == 0 else f"bubblewrap does not work here ({errors})"


_ASK_PATHS = """
import importlib.util, json, os, sys
paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path]
torch = importlib.util.find_spec("torch")
if torch and torch.origin:
    paths.append(os.path.dirname(torch.origin))
json.dump({"executable": sys.executable, "paths": [p for p in paths if os.path.isabs(p)]}, sys.stdout)
"""


@functools.cache
def _ask_interpreter(python: Path) -> dict[str, Any]:
    try:
        # -E: a PYTHONPATH of ours does not reach the sandbox either. -c puts '' on the path, which is not absolute.
        asked = subprocess.run(
            [python, "-E", "-c", _ASK_PATHS], cwd="/", capture_output=True, text=True, timeout=60, check=True
        )
        return dict(json.loads(asked.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise MissingTool(f"{python} is not a Python interpreter that runs: {error}. Name one with --python.") from None


def real_interpreter(python: Path) -> Path:
    """The interpreter itself where a launcher was named, such as a shim of pyenv, which the sandbox does not show.

    Raises:
        MissingTool: it does not run.
    """
    return Path(_ask_interpreter(python)["executable"])


def runtime_paths(python: Path) -> list[Path]:
    """What an interpreter needs to see of the file system: its prefixes, its packages, its chain of links.

    Raises:
        MissingTool: it does not run.
    """
    asked = _ask_interpreter(python)
    found = [Path(path) for path in asked["paths"]]
    found += _links(Path(asked["executable"]))
    home = Path.home()
    too_wide = {home, *home.parents, Path("/home"), Path("/root"), Path("/tmp")}
    return [path for path in dict.fromkeys(found) if path.exists() and not {path, path.resolve()} & too_wide]


def _links(path: Path) -> Iterable[Path]:
    """The path and all that it leads through while it is a link."""
    yield path
    while path.is_symlink():
        path = path.parent / path.readlink()
        yield path
