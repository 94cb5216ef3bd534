"""A readable fault between graphs: both runs side by side, up to where they part."""

from __future__ import annotations

from minimizer.report.model import Report
from minimizer.report.safe_markdown import code, escape, table


def side_by_side(report: Report) -> str:
    """The section of the report; empty for other failures."""
    failure = report.failure
    if failure is None or failure.mechanism is None or not failure.is_between_graphs:
        return ""
    place = f" Line {failure.source.line}: {code(failure.source.code)}" if failure.source is not None else ""
    first = f"{code(failure.mechanism)}: {escape(report.culprits[0].what)}.{place}"
    rows = [[escape(seen.when), code(seen.eager), code(seen.compiled)] for seen in report.observed]
    return "\n\n".join(filter(None, [first, table(["", "eager", "compiled"], rows)]))
