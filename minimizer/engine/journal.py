"""The record of one job: what is told to the sink, and what is kept for ``run.log`` and the report's timings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any

from minimizer.engine.clock import Clock
from minimizer.errors import BudgetExceeded, Cancelled, Skipped
from minimizer.report.model import Report
from minimizer.report.stack import shortened
from minimizer.sink import REPROS, Sink
from minimizer.vocabulary import Step

LOG_LINES = 20_000
TRACEBACK = "traceback.txt"
TICK_SECONDS = 5.0
"""How old the elapsed time may be that was told last."""


class Journal:
    """Wraps a sink. Several threads may tell it things, and the sink is asked by one of them at a time."""

    def __init__(self, sink: Sink, report: Report, clock: Clock) -> None:
        self.sink, self.report, self.clock = sink, report, clock
        self._telling = RLock()
        self._shown: set[str] = set()
        self._lines: list[str] = []
        self.redact: Callable[[str], str] = str
        """Applied to all that is written to ``run.log``."""
        self.guard: Callable[[], None] = _nothing
        """Called whenever we wait; raises BudgetExceeded where the job takes more than time."""
        self.repro: str | None = None
        """The text of the repro, once there is one."""
        self.subject = ""
        """What the steps are about, once that is known: a graph."""
        self.last_step: Step | None = None
        """The step that was begun last."""
        self._step_started = time.monotonic()
        self.decided_at: float | None = None
        """When the verdict was reached, in seconds since the job began: from there on a job that is stopped keeps it."""
        self._skippable: Step | None = None
        self._progress: dict[str, Any] = {}
        self._told_at = 0.0

    @property
    def step_seconds(self) -> float:
        """Seconds since the last step began."""
        return time.monotonic() - self._step_started

    def watch(self) -> None:
        """Called while waiting.

        Raises:
            Cancelled: the owner asked for it.
            Skipped: the owner does not want to wait for this step.
            BudgetExceeded: the time is used up.
        """
        self._tick()
        if self.clock.is_undisturbed:
            self.sink.cancelled()  # all the same: a worker takes an engine that never asks for stuck
            return
        self.watch_owner()
        if not self.clock.spare:
            raise BudgetExceeded(f"the budget of {self.clock.budget:.0f} seconds is used up")

    def watch_owner(self) -> None:
        """`watch` for what has a time limit of its own, and may overrun the budget by that.

        Raises:
            Cancelled: the owner asked for it.
            Skipped: the owner does not want to wait for this step.
            BudgetExceeded: the job takes more of something else than it may.
        """
        self._tick()
        if self.sink.cancelled():
            raise Cancelled("the job was cancelled")
        if self._skippable is not None and self.sink.skipped() == self._skippable:
            raise Skipped(f"{self._skippable} was skipped")
        self.guard()

    @contextmanager
    def skippable(self, step: Step) -> Iterator[None]:
        """Inside, the owner of the job may skip this step, and is told so."""
        self._offer(step)
        try:
            yield
        finally:
            self._offer(None)

    def _offer(self, step: Step | None) -> None:
        with self._telling:
            self._skippable = step
            self._tell()

    def event(self, type_: str, **data: Any) -> None:
        """Tell the sink and the log."""
        with self._telling:
            self.sink.event(type_, **data)
        self.log(f"{type_} {' '.join(f'{key}={value}' for key, value in data.items())}")

    def show(self, name: str, content: bytes) -> None:
        """Keep a file that shows a failure; `hide` takes the others away."""
        self._shown.add(name)
        self.sink.artifact(name, content)

    def show_instead(self, files: Mapping[str, bytes]) -> None:
        """Keep these files in place of all that was shown."""
        for name in self._shown - files.keys():
            self.sink.discard(name)
        self._shown.clear()
        for name, content in files.items():
            self.show(name, content)

    def hide(self) -> None:
        """Take away what an earlier run in the same place has shown, and this one has not."""
        for name in REPROS:
            if name not in self._shown:
                self.sink.discard(name)

    def note(self, message: str) -> None:
        """Something the user should know that is no failure; repeated notes are told once."""
        if message not in self.report.notes:
            self.report.notes.append(message)
            self.event("note", message=message)

    def stack(self, text: str) -> str:
        """A stack at the length of a report; a longer one is kept as a file as well."""
        text = self.redact(text).strip("\n")
        short = shortened(text)
        if short == text:
            self.sink.discard(TRACEBACK)
        else:
            self.sink.artifact(TRACEBACK, f"{text}\n".encode())
        return short

    def progress(self, **data: Any) -> None:
        """How far the work is."""
        with self._telling:
            self._progress = {name: value for name, value in data.items() if name != "message"}
            self._tell(**data)
        self.log(f"progress {' '.join(f'{key}={value}' for key, value in data.items())}")

    def decide(self) -> None:
        """The verdict is reached; what follows only adds to the report."""
        self.decided_at = self.clock.elapsed
        with self._telling:
            self._tell()

    def _tick(self) -> None:
        with self._telling:
            if self.clock.elapsed - self._told_at >= TICK_SECONDS:
                self._tell()

    def _tell(self, **data: Any) -> None:
        """Tell how far the work is: what was told before still holds, and the clock goes on."""
        self._told_at = self.clock.elapsed
        decided = self.decided_at is not None
        times: dict[str, Any] = {"elapsed": round(self._told_at, 1), "budget": self.clock.whole, "decided": decided}
        if decided:
            times["skippable"] = self._skippable
        self.sink.event("progress", **times, **{**self._progress, **data})

    def log(self, text: str) -> None:
        """Lines for ``run.log`` only, without what would move the cursor of a terminal that they are shown in."""
        for line in self.redact(text).splitlines():
            shown = "".join(c if c.isprintable() or c == "\t" else "?" for c in line[:2000])
            self._lines.append(f"{self.clock.elapsed:8.1f}  {shown}")
        del self._lines[:-LOG_LINES]

    def keep(self) -> None:
        """Write the report so far and the log to the sink."""
        self.report.timings["total"] = round(self.clock.elapsed, 2)
        self.sink.report(self.report)
        self.sink.artifact("run.log", ("\n".join(self._lines) + "\n").encode())

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """Time one step of the pipeline and tell of its beginning and end; a step that is taken twice adds up."""
        begun = self._step_started = time.monotonic()
        self.last_step = step
        self.event("step", step=step.value, state="started")
        try:
            yield
        finally:
            seconds = round(time.monotonic() - begun, 2)
            self.report.timings[step.value] = round(self.report.timings.get(step.value, 0.0) + seconds, 2)
            self.event("step", step=step.value, state="finished", seconds=seconds)
            self.sink.report(self.report)


def _nothing() -> None:
    """No guard."""
