"""The zygote itself, with tasks that need no torch: how a child's end is noticed, whatever the child has left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT

MAIN = ROOT / "minimizer" / "inside" / "__main__.py"
SERVE = """
import os, runpy, signal, sys
runpy.run_path(MAIN)["load"]()
from minimizer_inside.wire import Channel
from minimizer_inside.zygote import Zygote

def dies_behind_a_daemon(message, channel):
    ready, tell = os.pipe()
    daemon = os.fork()
    if daemon == 0:
        os.setsid()
        os.write(tell, b"!")
        signal.pause()  # holds the pipe open for as long as it lives
    os.read(ready, 1)
    channel.send({"daemon": daemon})
    os.kill(os.getpid(), signal.SIGSEGV)

def speaks_at_length(message, channel):
    channel.send({"type": "outcome", "text": "x" * 3_000_000})

def tidies_up(message, channel):
    print("said before", flush=True)
    for folder in (message["folder"], message["cwd"]):
        os.rmdir(folder)
    print("said after", flush=True)

def spins(message, channel):
    channel.send({"type": "phase", "phase": "compiled"})
    while True:
        pass

def takes_memory(message, channel):
    held = bytearray(os.urandom(1 << 20)) * 300
    held[0] = 1

PATCH
tasks = {task.__name__: task for task in (dies_behind_a_daemon, speaks_at_length, tidies_up, spins, takes_memory)}
Zygote(Channel(int(sys.argv[1]), int(sys.argv[2])), tasks).serve()
"""
WITHOUT_PIDFD = "def pidfd_open(pid):\n    raise PermissionError\nos.pidfd_open = pidfd_open"


@dataclass
class Zygote:
    """The far ends of the pipes of a running zygote."""

    to: int
    lines: Iterator[bytes]
    folder: Path
    count: int = 0

    def send(self, message: dict[str, Any]) -> None:
        os.write(self.to, json.dumps(message).encode() + b"\n")

    def ask(self, op: str) -> int:
        """Start a task."""
        self.count += 1
        places = {"folder": str(self.folder / "logs"), "cwd": str(self.folder / "work")}
        self.send({"id": self.count, "op": op, "timeout": 200, "memory": None, **places})
        return self.count

    def hear(self) -> dict[str, Any]:
        return dict(json.loads(next(self.lines)))

    def run(self, op: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The messages of a task, and its end."""
        self.ask(op)
        messages = []
        while "end" not in (answer := self.hear()):
            messages.append(answer["message"])
        return messages, answer["end"]


@pytest.fixture(params=["", WITHOUT_PIDFD], ids=["pidfd", "no pidfd"])
def zygote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Zygote]:
    theirs_in, to = os.pipe()
    back, theirs_out = os.pipe()
    (tmp_path / "script.py").write_text(SERVE.replace("MAIN", repr(str(MAIN))).replace("PATCH", request.param))
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(theirs_in), str(theirs_out)], pass_fds=(theirs_in, theirs_out)
    )
    os.close(theirs_in)
    os.close(theirs_out)
    with os.fdopen(back, "rb") as lines:
        yield Zygote(to, lines, tmp_path)
        os.close(to)
        assert process.wait(60) == 0


def test_a_death_is_noticed_though_a_daemon_holds_the_pipe_open(zygote: Zygote) -> None:
    messages, end = zygote.run("dies_behind_a_daemon")
    (message,) = messages
    os.kill(message["daemon"], signal.SIGKILL)  # raises if it is gone already
    assert (end["signal"], end["exit"], end["timed_out"]) == (11, None, False)


def test_all_that_was_said_is_passed_on(zygote: Zygote) -> None:
    messages, end = zygote.run("speaks_at_length")
    assert [len(message["text"]) for message in messages] == [3_000_000]
    assert end["exit"] == 0


def test_folders_that_a_script_removes_are_made_again(zygote: Zygote) -> None:
    for _ in range(2):
        _, end = zygote.run("tidies_up")
        assert (end["exit"], end["log"]) == (0, "said before\nsaid after\n")


def test_what_a_task_took_is_told_at_its_end(zygote: Zygote) -> None:
    _, little = zygote.run("speaks_at_length")
    _, much = zygote.run("takes_memory")
    assert little["taken"] < 100 << 20
    assert 290 << 20 <= much["taken"] < 400 << 20


def test_a_log_needs_no_folder(zygote: Zygote) -> None:
    (zygote.folder / "logs").write_text("in the way")
    _, end = zygote.run("tidies_up")
    assert "said before" in end["log"] and "NotADirectoryError" in end["log"]
    assert end["exit"] == 70


def test_a_stack_is_had_for_the_asking(zygote: Zygote) -> None:
    task = zygote.ask("spins")
    assert zygote.hear()["message"]["type"] == "phase"
    text = ""
    # Told is the stack that was asked for before; one that was still being written then comes in two parts.
    while not ("in spins" in text and "(most recent call first)" in text):
        zygote.send({"op": "sample", "to": task})
        message = zygote.hear()["message"]
        assert message["type"] == "stacks"
        text = message["text"]
    zygote.send({"op": "kill", "to": task})
    assert zygote.hear()["end"]["signal"] == 9
    zygote.send({"op": "sample", "to": task})  # of one that is gone: nothing
    _, end = zygote.run("speaks_at_length")
    assert end["exit"] == 0


STARTS_CUDA = """
import types
from minimizer_inside import gpu
gpu.DEV = os.path.dirname(__file__)
for name in FILES:
    open(os.path.join(gpu.DEV, name), "w").close()
version, cuda = types.SimpleNamespace(cuda="13.0"), types.SimpleNamespace(is_initialized=lambda: True)
sys.modules["torch"] = types.SimpleNamespace(version=version, cuda=cuda)
"""


@pytest.mark.parametrize("zygote", [STARTS_CUDA.replace("FILES", "('nvidiactl', 'nvidia0')")], indirect=True)
def test_a_process_that_has_started_cuda_forks_no_more(zygote: Zygote) -> None:
    messages, end = zygote.run("speaks_at_length")
    assert messages == []
    assert end["exit"] == 70 and "a forked process cannot use it then" in end["log"]
    assert zygote.run("tidies_up")[1]["exit"] == 70


@pytest.mark.parametrize("zygote", [STARTS_CUDA.replace("FILES", "('nvidiactl',)")], indirect=True)
def test_a_process_without_a_gpu_forks_whatever_cuda_says(zygote: Zygote) -> None:
    assert zygote.run("tidies_up")[1]["exit"] == 0
