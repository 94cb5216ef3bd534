"""The user's own script, run with a change: compared call by call where a graph fails, else judged by how it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.diagnose.sets import Setting
from minimizer.diagnose.trials import switches
from minimizer.diagnose.workaround import Tried
from minimizer.findings import Case
from minimizer.report import Reproducibility
from minimizer.script import Rerun
from minimizer.script.arguments import with_arguments
from minimizer.sequential import least_rate
from minimizer.triage import Triage

MISS, MOST_PASSES = 0.02, 10
"""The chance that is taken that a script passes although nothing has changed, and how often it is run at most."""


def passes_needed(rate: Reproducibility) -> int:
    """Passes in a row after which a script counts as mended that failed this often."""
    if rate.failed >= rate.runs:
        return 1
    return min(MOST_PASSES, math.ceil(math.log(MISS) / math.log(1 - least_rate(rate))))


@dataclass(frozen=True)
class SurveyedScript:
    """A script whose calls are compared with eager. A pass counts after ``repeats`` in a row."""

    triage: Triage
    case: Case
    repeats: int = 1

    def run(self, text: str) -> Tried:
        frames: int | None = None
        for _ in range(self.repeats):
            frames = self.triage.runs_well(self.case, text=text)
            if frames is None:
                return Tried(passes=False)
        return Tried(passes=True, frames=frames or 0)

    def seconds(self, text: str) -> tuple[float, float] | None:
        before, after = self.triage.timed(), self.triage.timed(text)
        if before is None or after is None or before.compiled_seconds is None or before.eager_seconds is None:
            return None
        left = max(0.0, before.eager_seconds - (after.eager_seconds or 0.0))
        return before.compiled_seconds, (after.compiled_seconds or 0.0) + left

    def passes_without(self, parts: list[str]) -> bool:
        off = switches(Setting(off=frozenset(parts)))
        return all(self.triage.runs_well(self.case, switches=off) is not None for _ in range(self.repeats))


@dataclass(frozen=True)
class RerunScript:
    """A script that fails without being watched; it is not seen how many graphs are compiled."""

    rerun: Rerun
    path: Path
    args: Sequence[str]

    def run(self, text: str) -> Tried:
        signature, outcome = self.rerun.failure(with_arguments(text, self.args))
        return Tried(passes=signature is None and outcome.outcome == "same", frames=1)

    def seconds(self, text: str) -> tuple[float, float] | None:
        return None

    def passes_without(self, parts: list[str]) -> bool:
        setting = Setting(off=frozenset(parts))
        text = with_arguments(self.path.read_text("utf-8-sig"), self.args)
        ((signature, outcome),) = self.rerun.switched([(text, switches(setting))])
        return signature is None and outcome.outcome == "same"
