"""The record of one job: events and artifacts for the sink, lines for ``run.log``, and the report's timings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

from minimizer.engine import fold
from minimizer.engine.budget.clock import Clock
from minimizer.engine.budget.patience import TICK_SECONDS
from minimizer.engine.findings import Fault
from minimizer.errors import Cancelled, Skipped
from minimizer.report.model import Report
from minimizer.report.stack import shortened
from minimizer.sink import REPROS, Sink
from minimizer.vocabulary import Step

LOG_LINES = 20_000
TRACEBACK = "traceback.txt"


class Journal:
    """Wraps a sink. Thread-safe for events and progress: a lock serializes the threads that send them."""

    def __init__(self, sink: Sink, report: Report, clock: Clock) -> None:
        self.sink, self.report, self.clock = sink, report, clock
        self._fault = fold.fault_of(report)
        self._telling = RLock()
        self._shown: set[str] = set()
        self._lines: list[str] = []
        self.redact: Callable[[str], str] = str
        """Applied to every line of ``run.log`` and to stacks, to remove secrets."""
        self.guard: Callable[[], None] = lambda: None
        """Called in every wait; raises BudgetExceeded if the job exceeds a limit."""
        self.repro: str | None = None
        """The text of the repro, once there is one."""
        self.subject = ""
        """The graph that the steps work on, once known; used in messages."""
        self.last_step: Step | None = None
        """The step that began most recently."""
        self._step_started = time.monotonic()
        self.decided_at: float | None = None
        """Seconds from the start of the job to its verdict, kept if the job is stopped later.

        None before the verdict.
        """
        self._skippable: Step | None = None
        self._progress: dict[str, Any] = {}
        self._told_at = 0.0

    @property
    def fault(self) -> Fault:
        """The job's findings so far, for the attempt or the verdict that begins from them; no step in between reads them."""
        return self._fault

    def record(self, fault: Fault) -> Fault:
        """Take the findings of a step as the job's, in place of those so far, and rewrite the report; returns them."""
        self._fault = fault
        fold.of_fault(self.report, fault)
        return fault

    def add(self, **found: Any) -> Fault:
        """`record` these fields with what is known by then, for a step that adds to it however others ended."""
        return self.record(replace(self._fault, **found))

    @property
    def step_seconds(self) -> float:
        """Seconds since the last step began."""
        return time.monotonic() - self._step_started

    def watch(self) -> None:
        """Check for cancellation and the end of the budget; called in waits.

        Raises:
            Cancelled: the owner cancelled the job.
            Skipped: the owner skipped this step.
            BudgetExceeded: the time, less reserves, or another limit is used up.
        """
        if self.clock.is_undisturbed:
            self._tick()
            self.sink.cancelled()  # still polled: a worker thinks an engine stuck that stops polling
        else:
            self.watch_owner()
        if not self.clock.spare:
            raise self.clock.used_up()

    def watch_owner(self) -> None:
        """`watch` without the step's share and the reserves, for work that has its own time limit within the budget.

        Raises:
            Cancelled: the owner cancelled the job.
            Skipped: the owner skipped this step.
            BudgetExceeded: the whole budget, or another limit, is used up.
        """
        self._tick()
        if self.sink.cancelled():
            raise Cancelled("the job was cancelled")
        if self._skippable is not None and self.sink.skipped() == self._skippable:
            raise Skipped(f"{self._skippable} was skipped")
        if self.clock.is_over:
            raise self.clock.used_up()
        self.guard()

    @contextmanager
    def skippable(self, step: Step) -> Iterator[None]:
        """Let the owner of the job skip this step while inside, and show that it can be skipped."""
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
        """Send an event to the sink and the log."""
        with self._telling:
            self.sink.event(type_, **data)
        self.log(f"{type_} {' '.join(f'{key}={value}' for key, value in data.items())}")

    def announce(self, fault: Fault) -> Fault:
        """Record a fault, and send its failure as an event."""
        self.record(fault)
        self.event("failure", failure=fault.announced.model_dump(mode="json"))
        return fault

    def blame(self, fault: Fault) -> Fault:
        """Record a fault, and send its first culprit as an event."""
        self.record(fault)
        self.event("culprit", culprit=fault.culprits[0].model_dump(mode="json"))
        return fault

    def tell_repro(self, fault: Fault, *, verified: bool) -> None:
        """Send the size of the fault's repro as an event."""
        reduction = fault.reduced
        self.event("repro", lines=reduction.lines_after, nodes=reduction.nodes_after, verified=verified)

    def show(self, name: str, content: bytes) -> None:
        """Publish a file of a repro; `hide` removes those left by an earlier run."""
        self._shown.add(name)
        self.sink.artifact(name, content)

    def show_instead(self, files: Mapping[str, bytes]) -> None:
        """Publish these files in place of all published ones."""
        for name in self._shown - files.keys():
            self.sink.discard(name)
        self._shown.clear()
        for name, content in files.items():
            self.show(name, content)

    def apart(self, sink: Sink) -> Journal:
        """The journal of another fault of the same script, on the same clock."""
        apart = Journal(sink, Report(environment=dict(self.report.environment)), self.clock)
        apart.redact, apart.guard = self.redact, self.watch_owner
        return apart

    def take_over(self, fault: Fault, repro: str, files: Mapping[str, bytes]) -> None:
        """Make a separately recorded fault the job's own; its files replace all published ones."""
        self.show_instead(files)
        self.repro = repro
        self.announce(fault)
        self.tell_repro(fault, verified=True)

    def hide(self) -> None:
        """Remove repros that an earlier run left in the same folder and this run has not replaced."""
        for name in REPROS:
            if name not in self._shown:
                self.sink.discard(name)

    def note(self, message: str) -> None:
        """Add a note for the user to the report, once."""
        if message not in self.report.notes:
            self.report.notes.append(message)
            self.event("note", message=message)

    def stack(self, text: str) -> str:
        """Redact a stack and shorten it for the report; if it was longer, publish the whole as an artifact."""
        text = self.redact(text).strip("\n")
        short = shortened(text)
        if short == text:
            self.sink.discard(TRACEBACK)
        else:
            self.sink.artifact(TRACEBACK, f"{text}\n".encode())
        return short

    def progress(self, **data: Any) -> None:
        """Send a progress event; later events repeat its fields except ``message``."""
        with self._telling:
            self._progress = {name: value for name, value in data.items() if name != "message"}
            self._tell(**data)
        self.log(f"progress {' '.join(f'{key}={value}' for key, value in data.items())}")

    def decide(self) -> None:
        """Record that the verdict is reached; later steps only add to the report."""
        self.decided_at = self.clock.elapsed
        self.sink.report(self.report)  # before the event: from then on the verdict survives the death of this process
        with self._telling:
            self._tell()

    def _tick(self) -> None:
        with self._telling:
            if self.clock.elapsed - self._told_at >= TICK_SECONDS:
                self._tell()

    def _tell(self, **data: Any) -> None:
        """Send a progress event with the current times, and with those earlier fields that ``data`` does not replace."""
        self._told_at = self.clock.elapsed
        decided = self.decided_at is not None
        times: dict[str, Any] = {"elapsed": round(self._told_at, 1), "budget": self.clock.whole, "decided": decided}
        if decided:
            times["skippable"] = self._skippable
        self.sink.event("progress", **times, **{**self._progress, **data})

    def log(self, text: str) -> None:
        """Add lines to ``run.log`` only, without control characters, which would move a terminal's cursor."""
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
        """Time one step of the pipeline, with events at its start and end; times of a repeated step add up."""
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
