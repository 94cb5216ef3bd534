"""Later runs of a script that failed: whether they show the same failure, how often, and in which module instances."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace

from minimizer.engine.budget.patience import FLAKY_RUNS, FLAKY_SECONDS
from minimizer.engine.child import protocol
from minimizer.engine.oracle.signature import crash_signature
from minimizer.engine.survey.cases import (
    Case,
    hang_signature,
    held_signature,
    is_out_of_memory,
    lost_signature,
    missing_signature,
)
from minimizer.engine.survey.runs import Surveys, saw_nothing
from minimizer.errors import BudgetExceeded, Cancelled, ChildFailed
from minimizer.inside.questions import SurveyRequest, Switches
from minimizer.report.instances import Instances
from minimizer.report.model import Reproducibility
from minimizer.vocabulary import Kind


def fails_again(
    surveys: Surveys, case: Case, *, caches: bool | str = False, over: threading.Event | None = None
) -> bool | None:
    """Run the script once more, at low priority; returns whether it fails in the same way.

    ``caches``: as in `Surveys.next`. ``over``: as in `Surveys.run`. None if it was stopped before that was decided: it gets less of
    the machine than the first run.
    """
    survey = surveys.run(replace(_like(surveys, case), nice=10, caches=caches), over=over)
    if survey.held is not None:
        again = held_signature(survey.held.failure)
        survey.close()
        if is_out_of_memory(survey.held.failure.exception):
            return None
        return replace(case.signature, nonfinite=False).matches(again)
    finished = survey.finished
    if finished is not None:
        if is_out_of_memory(finished.exception):
            return None
        shows = case.otherwise is not None and bool(finished.suspects)
        if finished.lost is not None and finished.exception is not None:
            return case.signature.matches(lost_signature(finished.lost, finished.exception))
        if case.signature.kind is Kind.MISSING_ERROR:
            shows = _lacks(finished, case)
        return None if finished.stopped and not shows else shows
    if survey.silence is not None:
        return case.signature.matches(hang_signature(survey.silence)) if survey.silence.hangs else None
    return survey.signal is not None and case.signature.matches(crash_signature(survey.signal, survey.log))


def failure_rate(
    surveys: Surveys, case: Case, seen: Reproducibility, enough: int, over: threading.Event
) -> Reproducibility:
    """The failure rate of the script: ``enough`` runs if it always fails, else up to `FLAKY_RUNS`, including
    ``seen``.

    Fewer if a run is inconclusive, the time ends, or ``over`` is set.
    """
    failed, runs, stop = seen.failed, seen.runs, time.monotonic() + FLAKY_SECONDS
    with suppress(BudgetExceeded, Cancelled, ChildFailed):  # keep the count so far
        while runs < 2 or (runs < (enough if failed == runs else FLAKY_RUNS) and time.monotonic() < stop):
            if (fails := fails_again(surveys, case, over=over)) is None:
                break
            failed, runs = failed + fails, runs + 1
    return Reproducibility(failed=failed, runs=runs)


def each_instance(surveys: Surveys, case: Case, *, seconds: float) -> Instances | None:
    """The module instances that share the code of a failing one, from a run that continues after failing calls.

    The run takes at most ``seconds``; None if it shows no other instance.
    """
    survey = surveys.run(replace(_like(surveys, case), each=True), seconds=seconds)
    if survey.held is not None:
        survey.close()
    rows = survey.finished.instances if survey.finished is not None else []
    kind, known = case.signature.kind, Instances(compared="calls")
    for row in rows:
        if case.graph in row.graphs:
            compared = row.backward if kind is Kind.WRONG_GRADIENT else row.calls
            is_wrong, is_right = kind in row.failed, compared > 0 and not row.failed
            (known.wrong if is_wrong else known.right if is_right else known.unclear).append(row.name)
    return known if case.instance in known.wrong and len(known.wrong + known.right) > 1 else None


def runs_well(surveys: Surveys, case: Case, *, text: str | None = None, switches: Switches | None = None) -> int | None:
    """The number of graphs compiled in a run with these changes that shows no failure; None if it shows one."""
    survey = surveys.run(replace(_like(surveys, case), text=text, switches=switches))
    finished = survey.finished
    if survey.held is not None:
        survey.close()
    if (
        finished is None
        or finished.unsteady
        or saw_nothing(finished)
        or (case.otherwise is not None and finished.suspects)
    ):
        return None
    if case.signature.kind is Kind.MISSING_ERROR:
        return None if _lacks(finished, case) else finished.checked.graphs
    return finished.checked.graphs if finished.exception is None else None


def _like(surveys: Surveys, case: Case) -> SurveyRequest:
    """A compiled run in which a case's failure counts as one."""
    return replace(surveys.request, tolerance=case.tolerance, layout=case.is_layout, identity=case.identity)


def _lacks(finished: protocol.Finished, case: Case) -> bool:
    """Whether the error of a case is missing in this run too."""
    return any(case.signature.matches(missing_signature(call)) for call in finished.missing)
