"""All that the page of a job shows, gathered from the store and put in the order a reader needs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from markupsafe import Markup
from pydantic import ValidationError

from minimizer.report import Report
from minimizer.store import ArtifactInfo, EventRow, Job, Store, UnknownArtifact
from minimizer.types import Status, Step
from web import highlight
from web.charts import Point, reduction_curve
from web.presentation import count
from web.verdict import STEPS, Verdict, verdict

log = logging.getLogger(__name__)

_FEED = 40
_WORKER_SILENCE = timedelta(minutes=1)


@dataclass(frozen=True)
class StepView:
    """One step of the pipeline."""

    name: str
    what: str
    state: Literal["waiting", "working", "done", "skipped"]
    seconds: float | None


@dataclass(frozen=True)
class Note:
    """A line of the activity feed."""

    time: datetime
    text: str


@dataclass(frozen=True)
class JobView:
    """The page of a job."""

    job: Job
    verdict: Verdict
    report: Report | None
    steps: list[StepView]
    curve: Markup
    has_curve: bool
    feed: list[Note]
    nodes: int | None
    nodes_before: int | None
    trials: int | None
    cache_hits: int | None
    elapsed: float
    artifacts: list[ArtifactInfo]
    repro: str | None
    has_worker: bool
    """Whether somebody is there to take it, should it wait."""

    @property
    def failure(self) -> dict[str, Any] | None:
        return self.report.failure.model_dump(mode="json") if self.report and self.report.failure else self.job.failure

    @property
    def culprits(self) -> list[dict[str, Any]]:
        if self.report and self.report.culprits:
            return [culprit.model_dump(mode="json") for culprit in self.report.culprits]
        return [self.job.culprit] if self.job.culprit else []

    @property
    def culprit_lines(self) -> list[int]:
        """The lines of the user's script that hold a culprit."""
        sources = [culprit.get("source") or {} for culprit in self.culprits]
        return [source["line"] for source in sources if str(source.get("file", "")).endswith(self.job.filename)]


def view(store: Store, job_id: str) -> JobView:
    """Gather the page of a job."""
    job = store.job(job_id)
    events = list(_all_events(store, job_id))
    report = _report(store.report(job_id), job)
    progress = [event.data for event in events if event.type == "progress"]
    latest = progress[-1] if progress else {}
    reduction = report.reduction if report else None
    elapsed = _elapsed(job)
    points = _points(progress, report)
    return JobView(
        job=job,
        verdict=verdict(job),
        report=report,
        steps=_steps(job, events),
        curve=reduction_curve(
            points, until=None if job.status.is_final else max(elapsed, *(p.seconds for p in points), 1.0)
        ),
        has_curve=bool(points),
        feed=_feed(events),
        nodes=reduction.nodes_after if reduction and job.status.is_final else latest.get("nodes"),
        nodes_before=reduction.nodes_before if reduction else latest.get("nodes_before"),
        trials=reduction.trials if reduction else latest.get("trials"),
        cache_hits=reduction.cache_hits if reduction else latest.get("cache_hits"),
        elapsed=elapsed,
        artifacts=store.artifacts(job_id),
        repro=_repro(store, job_id),
        has_worker=job.status is not Status.QUEUED or has_worker(store),
    )


def has_worker(store: Store) -> bool:
    """Whether a worker was seen lately."""
    since = datetime.now(UTC) - _WORKER_SILENCE
    return any(worker.last_seen > since for worker in store.workers())


def script(store: Store, job_id: str, marked: list[int]) -> Markup:
    """The user's script, highlighted."""
    return highlight.python(store.script(job_id).decode(errors="replace"), marked)


def _all_events(store: Store, job_id: str) -> Iterator[EventRow]:
    after = 0
    while rows := store.events(job_id, after=after, limit=500):
        yield from rows
        after = rows[-1].seq


def _report(raw: dict[str, Any] | None, job: Job) -> Report | None:
    if raw is None:
        return None
    try:
        return Report.model_validate(raw)
    except ValidationError:
        # Written by another version: the page does without, and the raw file is still there to download.
        log.warning("the report of job %s is not of this version", job.id, exc_info=True)
        return None


def _repro(store: Store, job_id: str) -> str | None:
    try:
        _, content = store.artifact(job_id, "repro.py")
    except UnknownArtifact:
        return None
    return content.decode(errors="replace")


def _elapsed(job: Job) -> float:
    if job.started_at is None:
        return 0.0
    return ((job.finished_at or datetime.now(UTC)) - job.started_at).total_seconds()


def _points(progress: list[dict[str, Any]], report: Report | None) -> list[Point]:
    # The events see the whole way down, from the captured graph on; the history of the report begins with the reduction.
    points = [
        Point(float(data.get("elapsed") or 0.0), int(data["nodes"]))
        for data in progress
        if isinstance(data.get("nodes"), int)
    ]
    if not points and report and report.reduction:
        points = [Point(step.seconds, step.nodes) for step in report.reduction.history]
    return points


def _steps(job: Job, events: list[EventRow]) -> list[StepView]:
    states: dict[str, Literal["working", "done"]] = {}
    seconds: dict[str, float] = {}
    for event in events:
        if event.type == "step":
            name = str(event.data.get("step"))
            states[name] = "done" if event.data.get("state") == "finished" else "working"
            if isinstance(event.data.get("seconds"), int | float):
                seconds[name] = float(event.data["seconds"])
    return [
        StepView(name, what, _state(states.get(step), job.status), seconds.get(step))
        for step, (name, what) in STEPS.items()
    ]


def _state(seen: Literal["working", "done"] | None, status: Status) -> Literal["waiting", "working", "done", "skipped"]:
    if seen is None:
        return "skipped" if status.is_final else "waiting"
    # A step that was under way when the job ended did not finish.
    return "skipped" if seen == "working" and status.is_final else seen


def _feed(events: list[EventRow]) -> list[Note]:
    notes = [Note(event.time, text) for event in events if (text := _sentence(event))]
    return notes[::-1][:_FEED]


def _sentence(event: EventRow) -> str:
    data = event.data
    match event.type:
        case "step" if data.get("state") == "started" and data.get("step") in list(Step):
            return STEPS[Step(data["step"])][1]
        case "note" | "progress":
            return str(data.get("message") or "")
        case "failure":
            failure = data.get("failure") or {}
            return f"It fails: {str(failure.get('kind', 'failure')).replace('_', ' ')}"
        case "culprit":
            culprit = data.get("culprit") or {}
            what = ", ".join(culprit.get("ops") or []) or culprit.get("what") or "found"
            return f"Culprit: {what}" + (f" in {culprit['module']}" if culprit.get("module") else "")
        case "repro":
            return f"repro.py written: {count(data.get('nodes') or 0, 'node')}, {count(data.get('lines') or 0, 'line')}"
        case _:
            return ""
