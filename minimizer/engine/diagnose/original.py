"""Runs the user's own script with a change: compared call by call where a graph fails, else judged by how it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.child.outcome import Ending
from minimizer.engine.diagnose.effect import Effect, effect_of
from minimizer.engine.diagnose.sets import Setting
from minimizer.engine.diagnose.trials import switches
from minimizer.engine.diagnose.workaround import Tried
from minimizer.engine.oracle.sequential import least_rate
from minimizer.engine.reduce.python import Rerun
from minimizer.engine.survey.cases import Case
from minimizer.engine.survey.known_failure import runs_well
from minimizer.engine.survey.runs import Surveys
from minimizer.engine.user_script.arguments import with_arguments
from minimizer.inside.questions import Switches
from minimizer.report.model import Reproducibility

MISS, MOST_PASSES = 0.02, 10
"""Accepted chance that a flaky script passes by luck, and most runs to get below it."""


def passes_needed(rate: Reproducibility) -> int:
    """Passes in a row after which a script that failed at this rate counts as passing."""
    if rate.failed >= rate.runs:
        return 1
    return min(MOST_PASSES, math.ceil(math.log(MISS) / math.log(1 - least_rate(rate))))


def in_a_row(passes: int, try_: Callable[[], Tried]) -> Tried:
    """Try until it has passed ``passes`` times in a row, or fails once."""
    tried = Tried(passes=False)
    for _ in range(passes):
        tried = try_()
        if not tried.passes:
            break
    return tried


@dataclass(frozen=True)
class SurveyedScript:
    """A script whose calls are compared with eager. ``repeats``: passes in a row that count as one."""

    surveys: Surveys
    case: Case
    repeats: int = 1

    def run(self, text: str) -> Tried:
        return in_a_row(self.repeats, lambda: _tried(runs_well(self.surveys, self.case, text=text)))

    def effect(self, text: str) -> Effect | None:
        before, after = self.surveys.timed(), self.surveys.timed(text)
        return effect_of(before, after) if before is not None and after is not None else None

    def passes_without(self, parts: list[str]) -> bool:
        off = switches(Setting(off=frozenset(parts)))
        return in_a_row(self.repeats, lambda: _tried(runs_well(self.surveys, self.case, switches=off))).passes


def _tried(frames: int | None) -> Tried:
    """The result of a run that compiled ``frames`` graphs; None: it failed."""
    return Tried(passes=frames is not None, frames=frames or 0)


@dataclass(frozen=True)
class RerunScript:
    """A script judged by how it ends, without our hooks, so that the number of compiled graphs is unknown.

    ``repeats``: passes in a row that count as one.
    """

    rerun: Rerun
    path: Path
    args: Sequence[str]
    repeats: int = 1

    def run(self, text: str) -> Tried:
        return self._try(text, None)

    def effect(self, text: str) -> Effect | None:
        return None

    def passes_without(self, parts: list[str]) -> bool:
        off = switches(Setting(off=frozenset(parts)))
        return self._try(self.path.read_text("utf-8-sig"), off).passes

    def _try(self, text: str, off: Switches | None) -> Tried:
        text = with_arguments(text, self.args)

        def once() -> Tried:
            ((signature, outcome),) = self.rerun.switched([(text, off)])
            return Tried(passes=signature is None and outcome.ending is Ending.SAME, frames=None)

        return in_a_row(self.repeats, once)
