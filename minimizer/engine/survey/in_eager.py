"""Eager runs of a script, as the reference for a failure with the compiler."""

from __future__ import annotations

import time
from collections.abc import Callable

from minimizer.engine.budget.patience import EAGER_RUNS, EAGER_RUNS_SECONDS
from minimizer.engine.child.outcome import ExceptionInfo
from minimizer.engine.child.survey import Survey
from minimizer.engine.survey.cases import line_of
from minimizer.engine.survey.runs import Surveys


def eager_runs(surveys: Surveys) -> list[Survey]:
    """Eager runs, until one has failed and one has passed, one has died, or `EAGER_RUNS` or `EAGER_RUNS_SECONDS` are used up."""
    started, runs = time.monotonic(), [surveys.eager()]
    ends: set[bool] = set()
    while (finished := runs[-1].finished) is not None:
        ends.add(finished.exception is not None)
        if len(ends) > 1 or len(runs) == EAGER_RUNS or time.monotonic() - started > EAGER_RUNS_SECONDS:
            break
        runs.append(surveys.eager())
    return runs


def by_stance(
    surveys: Surveys, eager: list[Survey], error: ExceptionInfo, on_note: Callable[[str], None]
) -> list[Survey]:
    """The eager runs to go by: those by TORCHDYNAMO_DISABLE, or one by the stance ``force_eager`` if it differs.

    A script may read the variable, or depend on the wrapper around a compiled module, which is missing with the
    variable.
    """
    ends = [run.finished.exception for run in eager if run.finished is not None]
    is_same = ends[0] is not None and ends[0].root_type == error.root_type if ends else True
    if is_same or len({end is None for end in ends}) > 1 or "set_stance" in surveys.text:
        return eager
    told = surveys.eager(by_stance=True)
    if told.finished is None or (told.finished.exception is None) == (ends[0] is None):
        return eager
    on_note(
        f"The script looks at the compiler: with TORCHDYNAMO_DISABLE=1 {_how(ends[0])}, with the stance force_eager "
        f"{_how(told.finished.exception)}. The second is taken for what eager does."
    )
    return [told]


def _how(error: ExceptionInfo | None) -> str:
    return "it ends well" if error is None else f"it ends by {line_of(error)}"
