"""Kernel keyrings do not cross the sandbox: neither what the operator's session holds, nor what another job has left."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

OPERATOR = """
    import ctypes, os, platform, subprocess, sys
    from pathlib import Path
    from minimizer.sandbox import Bubblewrap, Limits, Unconfined, runtime_paths

    ADD, CTL = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    assert syscall(CTL, 1, None) > 0                                    # a session of the operator's own
    assert syscall(ADD, b"user", b"operator", b"hunter2", 7, -3) > 0    # -3: the session keyring

    folder = Path(sys.argv[2])
    sandbox = {"bubblewrap": Bubblewrap, "limits": lambda: Limits("test"), "off": Unconfined}[sys.argv[1]]()

    def run(script):
        command = [sys.executable, "-c", Path(folder, "keys.py").read_text() + script]
        read = [*runtime_paths(Path(sys.executable)), folder]
        process = sandbox.start(command, cwd=folder, read=read, write=(), env={"PATH": os.defpath}, stdout=subprocess.PIPE)
        text = process.communicate()[0].decode().strip()
        sandbox.kill(process)
        return text

    print(run("print(read(b'operator'))"))
    print(run("leave(b'job', b'message')"), run("print(read(b'job'))"))
    found = ctypes.create_string_buffer(64)
    serial = syscall(CTL, 10, -3, b"user", b"operator", 0)              # ours is as it was
    assert syscall(CTL, 11, serial, found, 64) == 7
    print(found.value.decode())
"""
KEYS = """
import ctypes, platform
ADD, CTL = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
syscall = ctypes.CDLL(None).syscall
def leave(name, value):
    syscall(ADD, b"user", name, value, len(value), -3)
def read(name):
    found = ctypes.create_string_buffer(64)
    serial = syscall(CTL, 10, -3, b"user", name, 0)
    return found.value.decode() if serial > 0 and syscall(CTL, 11, serial, found, 64) > 0 else "nothing"
"""


@pytest.mark.parametrize(("sandbox", "seen"), [("bubblewrap", "nothing"), ("limits", "nothing"), ("off", "hunter2")])
def test_keyrings_stay_on_their_side(tmp_path: Path, sandbox: str, seen: str) -> None:
    (tmp_path / "keys.py").write_text(KEYS)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OPERATOR), sandbox, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    of_operator, of_job, own = (line.strip() for line in done.stdout.splitlines())
    assert of_operator == seen
    assert of_job == ("message" if sandbox == "off" else "nothing")
    assert own == "hunter2"
