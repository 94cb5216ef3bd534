"""The display of a running job: live on a terminal, plain lines anywhere else.

Both receive the events of `minimizer.sink.Sink` and write to stderr, so that stdout stays free for results. Text in
events can stem from the user's script, hence `printable`: a script must not control the terminal.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

from minimizer.report.culprit import operators_of
from minimizer.sink import Event
from minimizer.vocabulary import Step

if TYPE_CHECKING:
    from rich.console import RenderableType


class View(Protocol):
    """Shows events to a person."""

    def event(self, event: Event) -> None: ...

    def close(self) -> None: ...


KEPT = "The verdict stands. What follows only adds to the report: Ctrl-C ends here, and keeps it."
SKIP_KEY = "s"
SKIPS = f"{SKIP_KEY} skips this step."


def open_view(*, decided: str = "", skips: str = "") -> View:
    """The view that fits stderr.

    ``decided`` is printed once the job's verdict is reached while work on it goes on; ``skips`` while a step can be
    skipped.
    """
    return LiveView(decided, skips) if sys.stderr.isatty() else PlainView(decided)


def printable(text: object, limit: int = 2000) -> str:
    """One line without control characters."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else "?" for c in line)[:limit]


def sentence(event: Event) -> str | None:
    """An event as a line for a person; ``None`` for those that only move the display."""
    match event["type"]:
        case "failure":
            return _failure(event["failure"])
        case "culprit":
            return _culprit(event["culprit"])
        case "repro":
            state = "verified" if event.get("verified") else "not verified yet"
            return f"repro.py: {event.get('lines')} lines, {_nodes(event.get('nodes'))}, {state}"
        case "blame":
            return f"To blame: {printable(event['blame']['what'], 400)}"
        case "workaround":
            return f"The script passes with: {printable('; '.join(event['workaround']['code'].splitlines()), 400)}"
        case "note":
            return printable(event["message"])
        case _:
            return None


def _failure(failure: dict[str, Any]) -> str:
    seen = failure.get("reproducibility") or {}
    times = f" ({seen['failed']} of {seen['runs']} runs of the script)" if seen.get("runs") else ""
    message = printable(failure.get("message", ""), 200)
    return f"It fails: {failure['kind']}{times}" + (f": {message}" if message else "")


def _culprit(culprit: dict[str, Any]) -> str:
    what = printable(", ".join(operators_of(culprit)) or culprit.get("what") or "unknown", 200)
    module, source = culprit.get("module"), culprit.get("source")
    where = f" in {printable(module, 200)}" if module else ""
    line = f" ({printable(source['file'], 200)}:{source['line']})" if source else ""
    return f"At fault: {what}{where}{line}"


def _nodes(count: object) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


class PlainView:
    """One line an event worth telling, each with the seconds since the start."""

    def __init__(self, decided: str = "") -> None:
        self._started = time.monotonic()
        self._said: tuple[object, object] = (None, None)
        self._decided, self._is_decided = decided, False

    def event(self, event: Event) -> None:
        if event["type"] == "step":
            self._step(event)
        elif event["type"] == "progress":
            self._progress(event)
        elif line := sentence(event):
            self._say(line)

    def close(self) -> None:
        pass

    def _step(self, event: Event) -> None:
        if event["state"] == "started":
            if self._is_decided and self._decided:  # not earlier: after many verdicts nothing follows
                self._say(self._decided)
                self._decided = ""
            self._say(f"{Step(event['step']).what} ...")

    def _progress(self, event: Event) -> None:
        """Trials come by the dozen: only a new size or a new message is worth a line."""
        self._is_decided = bool(event.get("decided"))
        if "message" not in event:  # only the clock has changed
            return
        now = (event.get("nodes"), event.get("message"))
        if now == self._said:
            return
        self._said = now
        nodes, before = event.get("nodes"), event.get("nodes_before")
        size = f"{_nodes(nodes)} of {before}" if nodes is not None and before else ""
        trials = f"{event['trials']} trials" if event.get("trials") else ""
        message = printable(event.get("message") or "", 200)
        if line := ", ".join(part for part in (message, size, trials) if part):
            self._say("  " + line)

    def _say(self, line: str) -> None:
        print(f"[{time.monotonic() - self._started:6.1f}s] {line}", file=sys.stderr, flush=True)  # noqa: T201


class LiveView:
    """The steps with a tick each, the node count and the clock, redrawn in place; findings scroll above."""

    def __init__(self, decided: str = "", skips: str = "") -> None:
        from rich.console import Console
        from rich.live import Live

        self._started = time.monotonic()
        self._steps: dict[Step, float | None] = {}
        self._begun: dict[Step, float] = {}
        self._progress: Event = {}
        self._decided, self._skips = decided, skips
        self._live = Live(
            console=Console(stderr=True), get_renderable=self._render, refresh_per_second=4, redirect_stdout=False
        )
        self._live.start()

    def event(self, event: Event) -> None:
        if event["type"] == "step":
            self._step(event)
        elif event["type"] == "progress":
            self._progress = {**self._progress, **event}
        elif line := sentence(event):
            from rich.text import Text

            self._live.console.print(Text(line))

    def close(self) -> None:
        self._live.stop()

    def _step(self, event: Event) -> None:
        step, now = Step(event["step"]), time.monotonic()
        if event["state"] == "started":
            self._begun[step], self._steps[step] = now, None
        else:
            self._steps[step] = event.get("seconds") or now - self._begun.get(step, now)

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.spinner import Spinner
        from rich.text import Text

        now = time.monotonic()
        rows: list[RenderableType] = []
        for step, seconds in self._steps.items():
            if seconds is None:
                waited = f" {step.what}  {now - self._begun[step]:.0f} s"
                rows.append(Spinner("dots", Text(waited, style="bold")))
            else:
                rows.append(Text(f"✓ {step.what}  {seconds:.1f} s", style="dim"))
        rows.append(Text(self._numbers(now - self._started)))
        if self._progress.get("decided") and self._decided and None in self._steps.values():
            rows.append(Text(self._decided))
        if self._progress.get("skippable") and self._skips:
            rows.append(Text(self._skips))
        return Group(*rows)

    def _numbers(self, elapsed: float) -> str:
        event = self._progress
        parts = [printable(event.get("message") or "", 80)]
        if event.get("nodes") is not None and event.get("nodes_before"):
            parts.append(f"nodes {event['nodes_before']} → {event['nodes']}")
        if event.get("trials"):
            parts.append(f"{event['trials']} trials ({event.get('cache_hits', 0)} known)")
        budget = f" of {event['budget']:.0f}" if event.get("budget") else ""
        parts.append(f"{elapsed:.0f}{budget} s")
        return "  " + " · ".join(part for part in parts if part)
