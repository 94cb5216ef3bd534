"""Verdicts in a report: a job that is settled without a repro, and one that is ended early."""

from __future__ import annotations

from minimizer.engine.between.answer import Answer
from minimizer.engine.journal import Journal
from minimizer.engine.oracle.oracle import exception_signature
from minimizer.engine.routes import checked_of
from minimizer.engine.survey.cases import Settled
from minimizer.report.culprit import Source
from minimizer.report.excused import left_open, merged
from minimizer.report.model import Failure, Report, Reproducibility, ScriptError
from minimizer.vocabulary import Reason, Stage, Status, counted


def end(report: Report, status: Status, reason: Reason, summary: str) -> None:
    """Close a report early; a verdict that was reached before stays."""
    if not report.status.is_final:
        report.status, report.reason, report.summary = status, reason, f"{report.summary} {summary}".strip()


def settle(found: Settled, exact: Answer, journal: Journal) -> None:
    """Write a verdict into the report, with what was compared. ``exact``: what the exact runs said."""
    report = journal.report
    report.status, report.reason, report.summary = found.status, found.reason, found.summary
    report.checked = checked_of(found.checked, exact)
    report.checked.excused = merged(report.checked.excused, found.excused)
    if found.status is Status.HEALTHY:
        report.summary = " ".join(filter(None, (left_open(report.checked.excused), found.summary, _of_state(exact))))
    for note in found.notes:
        journal.note(note)
    if found.status is not Status.PARTIAL:
        report.failure = None  # announced, and taken back
    error = found.exception
    if error is not None and found.kind is None and found.status is not Status.HEALTHY:
        report.error = ScriptError(
            exception_type=error.root_type,
            message=error.root_message[:2000],
            traceback=journal.stack(found.stack),
            source=Source.of(error.source, error.library),
        )
    if found.kind is not None:
        report.failure = Failure(
            kind=found.kind,
            exception_type=error.root_type if error else None,
            stage=found.cache.stage if found.cache else Stage.UNKNOWN,
            mechanism="stale_cache" if found.cache else None,
            object=found.cache.name if found.cache else "",
            message=error.root_message[:2000] if error else found.cache.message if found.cache else found.summary,
            traceback=journal.stack(found.stack),
            signature=exception_signature(found.kind, error).text,
            layout_only=found.layout_only,
            reproducibility=Reproducibility(failed=found.failed, runs=found.runs),
        )


def _of_state(exact: Answer) -> str:
    """A sentence on how much of what the script sees of itself was compared; empty where nothing was."""
    if not exact.looks:
        return ""
    until = " before they parted" if exact.ended else ""
    return f"What the script sees of itself is the same with the compiler, at {counted(exact.looks, 'moment')}{until}."
