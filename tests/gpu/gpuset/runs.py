"""One run of ``minimizer run`` on a script of the set: started, stopped at a limit, and read when it has ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .expect import Answer
from .results import DONE, OVER
from .rows import Row, Side

GRACE = 15.0
"""Seconds from an interrupt, at which the engine writes what it has and ends its children, to the kill."""


@dataclass(frozen=True)
class Engine:
    """How the engine is started.

    Attributes:
        python: the interpreter, which has torch.
        path: what stands on ``sys.path`` before its own packages: the checkout, and the engine's packages.
        out: a folder; each script gets one in it, for its report and log.
        jobs: trials at once, of one script.
    """

    python: Path
    path: Sequence[Path]
    out: Path
    jobs: int

    def command(self, row: Row, device: str) -> list[str]:
        side = row.sides[device]
        return [
            *(str(self.python), "-m", "minimizer", "run", str(row.script), "--out", str(self.out / row.name)),
            *("--device", device, "--budget", str(max(10, side.limit - 20)), "--jobs", str(self.jobs)),
            *("--no-witness", "--no-diagnosis", *side.arguments, "--", device),
        ]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.path))}


@dataclass
class Run:
    """A process that runs one script."""

    row: Row
    side: Side
    folder: Path
    process: subprocess.Popen[bytes]
    begun: float
    status: str = DONE
    """How it ended, or will have: whoever stops it says why."""
    interrupted: float | None = field(default=None, init=False)

    @classmethod
    def start(
        cls,
        row: Row,
        device: str,
        engine: Engine,
        command: Callable[[Row, str], list[str]] | None = None,
    ) -> Run:
        """Begin; ``command`` is the engine's own by default."""
        folder = engine.out / row.name
        shutil.rmtree(folder, ignore_errors=True)  # a checkpoint of an earlier call would be taken up
        folder.mkdir(parents=True)
        with (folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                (command or engine.command)(row, device),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=engine.environment(),
                start_new_session=True,
            )
        return cls(row, row.sides[device], folder, process, time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    @property
    def next_deadline(self) -> float:
        """The moment (of ``time.monotonic``) at which `enforce` has something to do."""
        return self.begun + self.side.limit if self.interrupted is None else self.interrupted + GRACE

    def enforce(self) -> None:
        """Interrupt the run if it is over its limit; kill it if it did not heed that."""
        if time.monotonic() < self.next_deadline:
            return
        if self.interrupted is None:
            self.stop(OVER)
        else:
            self.kill()

    def stop(self, status: str) -> None:
        """Interrupt it, with the reason."""
        if self.interrupted is None and self.process.poll() is None:
            self.status, self.interrupted = status, time.monotonic()
            self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it and its process group."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def answer(self) -> tuple[Answer | None, str]:
        """What the engine answered, and in one sentence; no answer where it was stopped, or left no report."""
        report: dict[str, Any] = {}
        try:
            report = json.loads((self.folder / "report.json").read_text())
        except (OSError, ValueError):
            tail = (self.folder / "output.txt").read_text(errors="replace").strip().splitlines()[-1:]
            return None, (tail or ["It wrote neither a report nor a word."])[0][:300]
        if self.status != DONE:
            return None, str(report.get("summary", ""))[:300]
        return Answer.of(self.process.returncode, report), str(report.get("summary", ""))[:300]
