"""Eager runs of a script, as the reference for a failure with the compiler."""

from __future__ import annotations

import time
from collections.abc import Callable

from minimizer.engine.budget.patience import EAGER_RUNS, EAGER_RUNS_SECONDS
from minimizer.engine.child import protocol
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.survey.cases import line_of
from minimizer.engine.survey.runs import Surveys


def runs_to_go_by(surveys: Surveys, raised: protocol.Finished, note: Callable[[str], None]) -> list[Survey]:
    """The eager reference for a compiled run that raised: runs with TORCHDYNAMO_DISABLE, or one with ``force_eager`` if
    it differs.

    A script may read the variable, or depend on the wrapper around a compiled module, which the variable removes.
    """
    runs = _several(surveys)
    ends = [run.finished.exception for run in runs if run.finished is not None]
    if (
        not raised.attempted or not ends
    ):  # no frame was attempted: the compiler is not the cause, whichever switch turns it off
        return runs
    is_same = ends[0] is not None and raised.exception is not None and ends[0].root_type == raised.exception.root_type
    if is_same or len({end is None for end in ends}) > 1 or "set_stance" in surveys.text:
        return runs
    told = surveys.eager(by_stance=True)
    if told.finished is None or (told.finished.exception is None) == (ends[0] is None):
        return runs
    note(
        f"The script looks at the compiler: with TORCHDYNAMO_DISABLE=1 {_how(ends[0])}, with the stance force_eager "
        f"{_how(told.finished.exception)}. The second is taken for what eager does."
    )
    return [told]


def _several(surveys: Surveys) -> list[Survey]:
    """Eager runs, until one fails and one passes, one dies, or `EAGER_RUNS` or `EAGER_RUNS_SECONDS` are reached."""
    started, runs = time.monotonic(), [surveys.eager()]
    ends: set[bool] = set()
    while (finished := runs[-1].finished) is not None:
        ends.add(finished.exception is not None)
        if len(ends) > 1 or len(runs) == EAGER_RUNS or time.monotonic() - started > EAGER_RUNS_SECONDS:
            break
        runs.append(surveys.eager())
    return runs


def _how(error: ExceptionInfo | None) -> str:
    return "it ends well" if error is None else f"it ends by {line_of(error)}"
