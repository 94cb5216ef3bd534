"""Writes the verdict of a job that is settled without a repro, or ended early."""

from __future__ import annotations

from minimizer.engine import fold
from minimizer.engine.between.answer import Answer, checked_of
from minimizer.engine.journal import Journal
from minimizer.engine.oracle.signature import exception_signature
from minimizer.engine.survey.cases import Settled
from minimizer.report.culprit import Source
from minimizer.report.excused import left_open, merged
from minimizer.report.model import Failure, Reproducibility, ScriptError
from minimizer.vocabulary import Reason, Stage, Status, counted


def end(journal: Journal, status: Status, reason: Reason, summary: str) -> None:
    """End a job early, unless it already has a verdict."""
    fault = journal.fault
    if not fault.status.is_final:
        summary = f"{fault.summary} {summary}".strip()
        journal.add(status=status, reason=reason, summary=summary)


def settle(found: Settled, exact: Answer, journal: Journal) -> None:
    """Set the verdict, with what was compared. ``exact``: the result of the exact runs."""
    checked, summary = checked_of(found.checked, exact), found.summary
    known = merged(checked.excused, found.excused)
    fold.checked(journal.report, checked.model_copy(update={"excused": known}))
    if found.status is Status.HEALTHY:
        summary = " ".join(filter(None, (left_open(known), summary, _of_state(exact))))
    for note in found.notes:
        journal.note(note)
    # Take back the announced failure, unless the verdict is partial.
    failure = journal.fault.failure if found.status is Status.PARTIAL else None
    error = found.exception
    if error is not None and found.kind is None and found.status is not Status.HEALTHY:
        raised = ScriptError(
            exception_type=error.root_type,
            message=error.root_message[:2000],
            traceback=journal.stack(found.stack),
            source=Source.of(error.source, error.library),
        )
        fold.ended_in_eager(journal.report, raised)
    if found.kind is not None:
        failure = Failure(
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
    journal.add(failure=failure, status=found.status, reason=found.reason, summary=summary)


def _of_state(exact: Answer) -> str:
    """A sentence on how much of the state that the script sees was compared; empty if none was."""
    if not exact.looks:
        return ""
    until = " before they parted" if exact.ended else ""
    return f"What the script sees of itself is the same with the compiler, at {counted(exact.looks, 'moment')}{until}."
