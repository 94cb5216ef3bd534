"""A fault between graphs as a reader sees it: both runs side by side, up to where they part."""

from __future__ import annotations

from minimizer.report.model import Report
from minimizer.report.safe_markdown import code, escape, table

MECHANISMS = {
    "lost_mutation": "a change that the compiled code does not make",
    "stale_guard": "code compiled for an earlier state is used again: a guard is missing",
    "leaked_state": "a mode that is set and not put back",
    "wrong_order": "the same things in another order",
    "skipped_handler": "an exception handler that does not run",
    "missed_hook": "a hook that does not run",
    "late_read": "state that backward has to read is read too early",
    "wrong_constant": "a value of Python that is computed otherwise while tracing",
}
"""The words for `failure.mechanism`."""


def side_by_side(report: Report) -> str:
    """The section of the report; empty for other failures."""
    failure = report.failure
    if failure is None or failure.mechanism is None:
        return ""
    place = f" Line {failure.source.line}: {code(failure.source.code)}" if failure.source is not None else ""
    first = (
        f"{code(failure.mechanism)}: {escape(MECHANISMS[failure.mechanism])}, seen of {code(failure.object)}.{place}"
    )
    rows = [[escape(seen.when), code(seen.eager), code(seen.compiled)] for seen in report.observed]
    return "\n\n".join(filter(None, [first, table(["", "eager", "compiled"], rows)]))
