"""The story of a job, folded from its events. Each event is read once, however often its page is viewed."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from minimizer.report.culprit import operators_of
from minimizer.store import EventRow, Job, Store
from minimizer.vocabulary import Step, counted
from web.job_page.charts import Point

_FEED = 40
_BATCH = 500


@dataclass(frozen=True)
class Note:
    """A line of the activity feed."""

    time: datetime
    text: str


@dataclass
class Story:
    """The events of a job so far, as shown on its page."""

    after: int = 0
    states: dict[str, Literal["working", "done"]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    points: Sequence[Point] = ()
    latest: dict[str, Any] = field(default_factory=dict)
    feed: deque[Note] = field(default_factory=lambda: deque(maxlen=_FEED))
    """The newest first."""

    def add(self, event: EventRow) -> None:
        """Go on by one event."""
        self.after = event.seq
        match event.type:
            case "step":
                self._add_step(event.data)
            case "progress":
                self._add_progress(event.data)
        if text := _sentence(event):
            self.feed.appendleft(Note(event.time, text))

    def _add_step(self, data: dict[str, Any]) -> None:
        step = str(data.get("step"))
        if step == Step.PREPARE and data.get("state") == "started":
            # Another worker begins from the start: the first one has died.
            self.states, self.seconds, self.points, self.latest = {}, {}, (), {}
        self.states[step] = "done" if data.get("state") == "finished" else "working"
        if isinstance(data.get("seconds"), int | float):
            self.seconds[step] = self.seconds.get(step, 0.0) + float(data["seconds"])  # it may be taken again

    def _add_progress(self, data: dict[str, Any]) -> None:
        self.latest = data
        nodes = data.get("nodes")
        if isinstance(nodes, int) and (not self.points or self.points[-1].nodes != nodes):
            self.points = (*self.points, Point(float(data.get("elapsed") or 0.0), nodes))


class Stories:
    """The stories of the jobs that were looked at lately."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, datetime | None], Story] = OrderedDict()

    def of(self, store: Store, job: Job) -> Story:
        """The story up to now, as a copy that stays as it is.

        A job that is run again gets a new one: its old events are gone, and it starts at another time.
        """
        key = (job.id, job.started_at)
        with self._lock:
            story = self._known.setdefault(key, Story())
            self._known.move_to_end(key)
            while rows := store.results.events(job.id, after=story.after, limit=_BATCH):
                for row in rows:
                    story.add(row)
            if len(self._known) > self._size:
                self._known.popitem(last=False)
            return replace(story, states=dict(story.states), seconds=dict(story.seconds), feed=story.feed.copy())


def _sentence(event: EventRow) -> str:
    data = event.data
    match event.type:
        case "step" if data.get("state") == "started" and data.get("step") in list(Step):
            return Step(data["step"]).what
        case "note" | "progress":
            return str(data.get("message") or "")
        case "failure":
            failure = data.get("failure") or {}
            return f"It fails: {str(failure.get('kind', 'failure')).replace('_', ' ')}"
        case "culprit":
            culprit = data.get("culprit") or {}
            what = ", ".join(operators_of(culprit)) or culprit.get("what") or "found"
            return f"Culprit: {what}" + (f" in {culprit['module']}" if culprit.get("module") else "")
        case "repro":
            return f"repro.py written: {counted(data.get('nodes') or 0, 'node')}, {counted(data.get('lines') or 0, 'line')}"
        case _:
            return ""
