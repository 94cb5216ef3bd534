"""The summary of a job whose budget ended: the step in progress, the findings so far, and a budget that would suffice."""

from __future__ import annotations

from minimizer.engine.child.protocol import Phase
from minimizer.engine.journal import Journal
from minimizer.engine.survey.coverage import rounded_up
from minimizer.options import MAX_BUDGET
from minimizer.report.culprit import operators_of
from minimizer.report.model import Report
from minimizer.vocabulary import Step

DOING = {
    "compile": "compiling {graph}",
    "run": "running {graph}, compiled",
    "backward": "running the backward of {graph}, compiled",
    "compare": "running {graph} in eager, to compare with it",
}
"""Words for the phases that a survey reports (``inside/tasks/survey.py``)."""


def doing(phase: Phase) -> str:
    """The activity of a run of the script, by the last phase it reported."""
    words = DOING.get(phase.doing, "")
    if words and phase.graph is not None:
        return words.format(
            graph=f"graph {phase.graph}" + (f" in its call {phase.call}" if phase.call is not None else "")
        )
    if not phase.doing:
        return "starting the script"
    compiled = phase.checked.graphs if phase.checked is not None else 0
    by_then = f"{compiled} graphs compiled by then" if compiled else "nothing compiled yet"
    return f"running the script's own code, with {by_then}"


def summary(report: Report, journal: Journal, why: str, *, is_time: bool) -> str:
    """The summary of a job that ended early: the step in progress, ``why``, its findings, and a budget that would
    suffice.

    ``is_time``: the time was over, so a larger budget helps.
    """
    step = journal.last_step.doing if journal.last_step is not None else "preparing"
    about = f" ({journal.subject})" if journal.subject and journal.last_step is not Step.SURVEY else ""
    more = larger(journal.clock.budget, journal.step_seconds) if is_time else None
    hint = f" --budget {more} may do: an estimate, by how long this step has taken." if more is not None else ""
    return f"Stopped while {step}{about}: {why}. {_found(report, journal)}{hint}"


def _found(report: Report, journal: Journal) -> str:
    """The findings so far, in one sentence."""
    if report.failure is None and journal.subject:
        return "A difference was being examined that may be rounding."
    if report.failure is None:
        return "No failure had been found by then."
    root = next(iter(report.roots), None)
    what = (", ".join(operators_of(vars(root))) or root.what) if root is not None else ""
    where = f" of {root.module_name}" if root is not None and root.module else ""
    about = ", since " if report.failure.kind.is_finding else " in "
    said = f"Found by then: {report.failure.kind}{f'{about}{what}{where}' if what else ''}"
    reduction = report.reduction
    if reduction is not None and 0 < reduction.nodes_after < reduction.nodes_before:
        said += f", {reduction.nodes_before:,} nodes down to {reduction.nodes_after:,}"
    return f"{said}; {'the best repro so far is kept' if journal.repro is not None else 'there is no repro yet'}."


def larger(budget: float, step_seconds: float) -> int | None:
    """A budget, in seconds, that gives the interrupted step three times as long, and is at least twice as large.

    Capped at `MAX_BUDGET`; None if that is no larger than ``budget``.
    """
    estimate = min(MAX_BUDGET, rounded_up(round(max(2 * budget, budget + 2 * step_seconds))))
    return estimate if estimate > budget else None
