"""What hostile scripts are after: files, listeners, processes and keys of their owner, laid out for the length of a block."""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hostile.cases import Case
from minimizer.errors import MemoryExceeded
from minimizer.sandbox import Bounds, Sandbox, Unconfined, runtime_paths, syscall_numbers

PYTHON = Path(sys.executable)
SECRET = "hunter2"
BOUNDS = Bounds(192 << 20, processes=64)
FILE_BYTES = 64 << 20
SECONDS = 300.0
LEFT_SECONDS = 4.0
_IPC_CREAT, _IPC_RMID = 0o1000, 0
_PROGRAM = """\
import json, os, sys
from types import SimpleNamespace
world = SimpleNamespace(**json.loads(sys.argv[1]))
try:
{}
except BaseException as error:
    print(type(error).__name__, error, flush=True)
"""


class World:
    """The bait, by the names that scripts use."""

    def __init__(self, folder: Path, bait: dict[str, Any]) -> None:
        self._folder = folder
        self._bait = bait
        self._runs = 0

    def run(self, case: Case, sandbox: Sandbox) -> str:
        """What a script has printed, in a folder of its own, and how it was ended if it was."""
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        folder.mkdir()
        script, output = folder / "script.py", self._folder / f"run-{self._runs}.txt"
        script.write_text(_PROGRAM.format(textwrap.indent(case.script, "    ")))
        bait = {
            **self._bait,
            "outside": str(self._folder / f"outside-{self._runs}"),
            "survived": str(folder / "survived"),
        }
        waiting, kept = os.pipe()
        with output.open("wb") as stdout:
            process = sandbox.start(
                [str(PYTHON), str(script), json.dumps(bait)],
                cwd=folder,
                read=runtime_paths(PYTHON),
                write=[folder],
                env={"PATH": os.defpath},
                # Who has what it wants may go; in the sandbox it waits to be ended.
                stdin=subprocess.DEVNULL if isinstance(sandbox, Unconfined) else waiting,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                file_bytes=FILE_BYTES,
            )
            try:
                ended = "" if sandbox.finish(process, SECONDS, sandbox.watch) is not None else "it did not end"
            except MemoryExceeded as error:
                ended = f"MemoryExceeded {error}"
            finally:
                os.close(waiting)
                os.close(kept)
        text = f"{output.read_text(errors='replace')}{ended}".strip()
        return f"{text}\nescaped" if case.leaves and _appears(Path(bait[case.leaves])) else text


def is_held(case: Case, text: str) -> bool:
    """Whether that is what the sandbox is expected to make of a script."""
    return re.search(case.held, text) is not None and ("escaped" not in text or "MemoryExceeded" in text)


def _appears(path: Path) -> bool:
    """Whether a file is there, or comes within a moment: a process that outlives its job takes one to write it."""
    deadline = time.monotonic() + LEFT_SECONDS
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    found = path.exists()
    path.unlink(missing_ok=True)
    return found


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Lay out the bait; what lies outside of the folder goes with the block."""
    name = f"minimizer-hostile-{secrets.token_hex(6)}"
    with ExitStack() as exits:
        bait: dict[str, Any] = {"name": name, "key": secrets.randbits(30) | 1, "calls": _numbers()}
        places = {
            "secret_at_home": Path.home() / f".{name}",
            "in_tmp": Path("/tmp", f"{name}-secret"),
            "shared_memory": Path("/dev/shm", f"{name}-secret"),
            "other_job": folder / "other-job" / "script.py",
            "database": folder / "data" / "minimizer.db",
        }
        for what, path in places.items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(SECRET)
            exits.callback(path.unlink)
            bait[what] = str(path)
        for shared in (Path("/tmp", name), Path("/dev/shm", name)):
            exits.callback(shared.unlink, missing_ok=True)
        bait["in_shm"] = f"/dev/shm/{name}"
        opened = exits.enter_context(places["database"].open())
        bystander = exits.enter_context(
            subprocess.Popen(["sleep", "600"], stdin=opened, env={"TOKEN": SECRET}, executable="/bin/sleep")
        )
        exits.callback(bystander.kill)
        named = subprocess.Popen(["sh", "-c", "sleep 600; :", SECRET])  # the secret stands in its command line
        exits.callback(named.wait)
        exits.callback(named.kill)
        bait |= {"bystander": bystander.pid, "named": named.pid, "disk": _disk(folder)}
        bait |= _listeners(name, folder, exits)
        _shared_segment(bait["key"], exits)
        yield World(folder, bait)


def _listeners(name: str, folder: Path, exits: ExitStack) -> dict[str, Any]:
    tcp = exits.enter_context(socket.create_server(("127.0.0.1", 0)))
    abstract, in_folder = (exits.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
    path = folder / "socket"
    for listener, address in ((abstract, f"\0{name}"), (in_folder, str(path))):
        listener.bind(address)
        listener.listen()
    udp = exits.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    udp.settimeout(SECONDS)
    threading.Thread(target=_echo, args=(udp,), daemon=True).start()
    ports: dict[str, Any] = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "tcp6": 1, "socket": str(path)}
    if socket.has_dualstack_ipv6():
        tcp6 = exits.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
        ports["tcp6"] = tcp6.getsockname()[1]
    return ports


def _echo(udp: socket.socket) -> None:
    try:
        while True:
            text, sender = udp.recvfrom(64)
            udp.sendto(text, sender)
    except OSError:  # the end of the block
        return


def _shared_segment(key: int, exits: ExitStack) -> None:
    """Memory of System V under a key that scripts know."""
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(key, 4096, _IPC_CREAT | 0o600)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    exits.callback(libc.shmctl, segment, _IPC_RMID, None)


def _disk(folder: Path) -> str:
    """The device on which the folder lies, or one that is not there."""
    device = folder.stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    return f"/dev/{link.resolve().name}" if link.exists() else "/dev/sda"


def _numbers() -> dict[str, int]:
    machine = syscall_numbers.architecture()
    return dict(machine.numbers) if machine is not None else {}
