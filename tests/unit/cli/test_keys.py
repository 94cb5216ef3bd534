"""Keys that are pressed while a job runs, on a terminal of the test's own."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

RUN = """
import sys, termios, types
from minimizer.report.model import Report
from minimizer.vocabulary import Reason, Status

def flags():
    return termios.tcgetattr(0)[3] & (termios.ICANON | termios.ECHO)

def minimize(script, *, sink, **more):
    sink.event("progress", elapsed=9.0, decided=True, skippable="layers")
    print("at layers", flush=True)
    while sink.skipped() is None and not sink.cancelled():
        pass
    print("skipped", sink.skipped(), "stopped", sink.cancelled(), flush=True)
    sink.event("progress", elapsed=9.0, decided=True, skippable="health")
    print("then", sink.skipped(), flush=True)
    return Report(status=Status.MINIMIZED)

engine = types.ModuleType("minimizer.engine.pipeline")
engine.minimize = minimize
sys.modules["minimizer.engine.pipeline"] = engine
from minimizer.cli import main
sys.argv = ["minimizer", "run", sys.argv[1], "--out", sys.argv[2], "--sandbox", "off"]
before = flags()
try:
    main()
finally:
    print("as before" if flags() == before else "changed", flush=True)
"""


class Terminal:
    """`minimizer run` with an engine that waits for a key, in the foreground of a terminal."""

    def __init__(self, folder: Path) -> None:
        script = folder / "script.py"
        script.write_text("import torch\n")
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, "-c", RUN, str(script), str(folder / "out")])
        self.shown = ""

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def until(self, words: str) -> str:
        until = time.monotonic() + 60
        while words not in self.shown:
            assert time.monotonic() < until, self.shown
            if select.select([self._end], [], [], 1)[0]:
                try:
                    self.shown += os.read(self._end, 4096).decode(errors="replace")
                except OSError:  # it has ended
                    assert words in self.shown, self.shown
        return self.shown

    def close(self) -> None:
        os.close(self._end)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def test_a_key_skips_the_step_at_work_and_no_other(terminal: Terminal) -> None:
    terminal.until("at layers")
    terminal.press(b"xs")
    terminal.until("skipped layers stopped False")
    terminal.until("then None")
    shown = terminal.until("as before")
    assert "s skips this step." in shown


def test_ctrl_c_stops_as_ever(terminal: Terminal) -> None:
    terminal.until("at layers")
    terminal.press(b"\x03")
    terminal.until("skipped None stopped True")
    terminal.until("as before")
