"""The content of a job's page, gathered from the store in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Literal

from markupsafe import Markup

from minimizer.options import MAX_BUDGET
from minimizer.report.culprit import Culprit
from minimizer.report.issue import Issue, issue_of
from minimizer.report.model import Failure, Report
from minimizer.store import ArtifactInfo, FailureGroup, Job, Store, UnknownArtifact, UnknownFailure
from minimizer.vocabulary import Reason, Status, Step
from web.job_page.charts import Point, reduction_curve
from web.job_page.diagnosis import Diagnosis, diagnosis
from web.job_page.story import Note, Stories, Story
from web.job_page.verdict import Verdict, verdict
from web.workers import may_start


@dataclass(frozen=True)
class StepView:
    """One step of the pipeline."""

    name: str
    what: str
    state: Literal["waiting", "working", "done", "skipped"]
    seconds: float | None


@dataclass(frozen=True)
class JobView:
    """The page of a job."""

    job: Job
    verdict: Verdict
    report: Report | None
    diagnosis: Diagnosis | None
    steps: list[StepView]
    curve: Markup
    has_curve: bool
    feed: Sequence[Note]
    nodes: int | None
    nodes_before: int | None
    trials: int | None
    cache_hits: int | None
    elapsed: float
    artifacts: list[ArtifactInfo]
    repro: str | None
    issue: Issue | None
    """For PyTorch's tracker, once the job has ended with something to file."""
    group: FailureGroup | None
    """The jobs that failed in the same way, and notes on them."""
    has_worker: bool
    """Whether a worker could take it, if it waits."""

    @property
    def more_seconds(self) -> int | None:
        """A larger budget, for a job that could have gone on."""
        reduction = self.job.reduction
        may_shrink = self.job.status is Status.MINIMIZED and reduction is not None and not reduction.one_minimal
        return min(2 * self.job.options.budget, MAX_BUDGET) if may_shrink or self.job.reason is Reason.BUDGET else None

    @property
    def has_pages(self) -> bool:
        """Whether there are tlparse's pages of the script's trace."""
        return any(artifact.name == "tlparse.zip" for artifact in self.artifacts)

    @property
    def stop(self) -> str:
        """The label of the button that ends a job."""
        if self.job.cancel_requested:
            return "Stopping…"
        if not self.job.can_stop:
            return "Cancel"
        holds = self.report is not None and self.report.verification is not None and self.report.verification.holds
        return "Stop here, keep the repro" if holds else "Stop here, keep the verdict"

    @property
    def failure(self) -> Failure | None:
        return self.report.failure if self.report and self.report.failure else self.job.failure

    @property
    def culprits(self) -> list[Culprit]:
        if self.report and self.report.culprits:
            return self.report.culprits
        return [self.job.culprit] if self.job.culprit else []

    @property
    def culprit_lines(self) -> list[int]:
        """The lines of the user's script that hold a culprit, without lines of other files of its project."""
        sources = [culprit.source for culprit in self.culprits if culprit.source]
        own = PurePosixPath(self.job.filename).name  # files are named from the script's folder on
        return [source.line for source in sources if not self.job.has_archive or source.file == own]


def view(store: Store, stories: Stories, job_id: str) -> JobView:
    """Gather the page of a job."""
    job = store.jobs.get(job_id)
    story = stories.of(store, job)
    report = store.results.report(job_id)
    reduction = report.reduction if report else None
    elapsed = _elapsed(job)
    points = _points(story, report)
    text = repro(store, job_id)
    return JobView(
        job=job,
        verdict=verdict(job),
        report=report,
        diagnosis=diagnosis(report) if report else None,
        steps=_steps(job, story),
        curve=reduction_curve(
            points, until=None if job.status.is_final else max(elapsed, *(p.at for p in points), 1.0)
        ),
        has_curve=bool(points),
        feed=list(story.feed),
        # Both of one source: the reduction in the report may be of another level than the one at work.
        nodes=reduction.nodes_after if reduction and job.status.is_final else story.latest.get("nodes"),
        nodes_before=reduction.nodes_before if reduction and job.status.is_final else story.latest.get("nodes_before"),
        trials=reduction.trials if reduction else story.latest.get("trials"),
        cache_hits=reduction.cache_hits if reduction else story.latest.get("cache_hits"),
        elapsed=elapsed,
        artifacts=store.results.artifacts(job_id),
        repro=text,
        issue=issue_of(report, text) if report and job.status.is_final else None,
        group=_group(store, job),
        has_worker=job.status is not Status.QUEUED or may_start(job, store.workers.all()),
    )


def script(store: Store, job_id: str) -> str:
    """The text of the user's script."""
    return store.jobs.script(job_id).decode(errors="replace")


def repro(store: Store, job_id: str) -> str | None:
    """The text of the repro, if the job has one."""
    try:
        _, content = store.results.artifact(job_id, "repro.py")
    except UnknownArtifact:
        return None
    return content.decode(errors="replace")


def _group(store: Store, job: Job) -> FailureGroup | None:
    signature = store.groups.of_jobs([job.id]).get(job.id)
    try:
        return None if signature is None else store.groups.get(signature, [job.project])
    except UnknownFailure:  # merged into another one since
        return None


def _elapsed(job: Job) -> float:
    if job.started_at is None or job.status is Status.QUEUED:  # the latter has been taken from a worker
        return 0.0
    return ((job.finished_at or datetime.now(UTC)) - job.started_at).total_seconds()


def _points(story: Story, report: Report | None) -> Sequence[Point]:
    # The events see the whole way down, from the captured graph on; the history of the report begins with the reduction.
    if not story.points and report and report.reduction:
        return [Point(step.seconds, step.nodes) for step in report.reduction.history]
    return story.points


def _steps(job: Job, story: Story) -> list[StepView]:
    return [
        StepView(step.label, step.what, _state(story.states.get(step), job.status), story.seconds.get(step))
        for step in Step
    ]


def _state(seen: Literal["working", "done"] | None, status: Status) -> Literal["waiting", "working", "done", "skipped"]:
    if seen is None or (seen == "working" and status is Status.QUEUED):
        return "skipped" if status.is_final else "waiting"
    # A step that was under way when the job ended did not finish.
    return "skipped" if seen == "working" and status.is_final else seen
