"""Several scripts at once, as cores and GPU memory allow, within a limit for all of them."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .machine import Machine, Peaks, free_mib
from .results import CUT, Result
from .rows import Row
from .runs import GRACE, Engine, Run

SAMPLE_SECONDS = 1.0
"""From one look at the card's memory to the next."""
SHORTEST = 20.0
"""Nothing is begun when less is left of the limit: a script needs as much to import torch and compile."""
SETTLE_SECONDS = 30.0
"""A script that began less ago is taken not to have all the memory yet that it will use."""


def slots(cores: int, device: str) -> int:
    """Scripts at once: each has a process that runs it, and trials beside that. On a CPU, where all compete, a script at a time."""
    return max(1, min(6, cores // 3)) if device == "cuda" else 1


def next_row(waiting: Sequence[Row], running: Sequence[tuple[Row, float]], device: str, free_gib: float) -> Row | None:
    """The next row that may begin beside those that run, each with its seconds; None where none may.

    What needs the card for itself waits for all others to end, and nothing begins while it runs.
    """
    if any(row.sides[device].alone for row, _ in running):
        return None
    promised = sum(row.sides[device].memory_gib for row, seconds in running if seconds < SETTLE_SECONDS)
    for row in waiting:
        side = row.sides[device]
        if side.alone:
            if not running and all(other.sides[device].alone for other in waiting):
                return row
        elif not running or side.memory_gib <= free_gib - promised:
            return row
    return None


@dataclass
class Session:
    """One call of the set.

    ``limit``: seconds for all of it, the ends of what is stopped included. ``keep`` is given each result as it comes.
    """

    device: str
    engine: Engine
    machine: Machine
    at_once: int
    limit: float
    codes: dict[str, str]
    keep: Callable[[Result], None]
    command: Callable[[Row, str], list[str]] | None = None
    free: Callable[[], int | None] = free_mib

    def run(self, rows: Sequence[Row]) -> list[Row]:
        """Run the rows; returns those that were not begun."""
        self._peaks, self._running, waiting = Peaks(), list[Run](), list(rows)
        end = time.monotonic() + self.limit
        try:
            while waiting or self._running:
                if end - time.monotonic() >= SHORTEST + GRACE:
                    self._begin(waiting)
                elif not self._running:
                    break
                if time.monotonic() >= end - GRACE:
                    for run in self._running:
                        run.stop(CUT)
                self._wait(end)
        finally:
            for run in self._running:  # an interrupt or a fault of ours
                run.status = CUT
                run.kill()
                self.keep(self._result(run))
        return waiting

    def _begin(self, waiting: list[Row]) -> None:
        while waiting and len(self._running) < self.at_once:
            free = self.free() if self.device == "cuda" else None
            free_gib = float("inf") if free is None else free / 1024
            row = next_row(waiting, [(run.row, run.seconds) for run in self._running], self.device, free_gib)
            if row is None:
                return
            waiting.remove(row)
            self._running.append(Run.start(row, self.device, self.engine, self.command))

    def _wait(self, end: float) -> None:
        """Until a run has ended, has to be stopped, or the card is to be looked at again."""
        moments = [run.next_deadline for run in self._running] + [end - GRACE] * (time.monotonic() < end - GRACE)
        patience = max(0.0, min(moments) - time.monotonic())
        if self.device == "cuda":
            patience = min(patience, SAMPLE_SECONDS)
            self._peaks.sample({run.row.name: run.process.pid for run in self._running})
        with selectors.DefaultSelector() as selector:
            for run in self._running:
                selector.register(os.pidfd_open(run.process.pid), selectors.EVENT_READ)
            try:
                selector.select(patience)
            finally:
                for key in list(selector.get_map().values()):
                    os.close(key.fd)
        for run in list(self._running):
            if run.process.poll() is None:
                run.enforce()
            if run.process.poll() is not None:
                self._running.remove(run)
                self.keep(self._result(run))

    def _result(self, run: Run) -> Result:
        answer, summary = run.answer()
        memory, is_bound = self._peaks.of(run.row.name)
        return Result(
            name=run.row.name,
            device=self.device,
            code=self.codes[run.row.name],
            status=run.status,
            answer=answer,
            summary=summary,
            seconds=round(run.seconds, 1),
            gpu_mib=memory,
            gpu_mib_is_bound=is_bound,
            machine=self.machine,
            when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        )
