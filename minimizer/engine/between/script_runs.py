"""Exact runs of one script in the child, all under the same conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minimizer.engine.child.exact_log import ExactLog
from minimizer.engine.child.executor import Executor
from minimizer.engine.child.outcome import Ending, Outcome
from minimizer.inside.questions import Conditions, ExactRequest, Plan

ALL = (1, None)
"""(first, last) call to run without the compiler, numbered from 1: here all of them."""


class Children:
    """The children in which a script's texts run under the script's path.

    ``made``: the number of runs. ``slowest``: seconds of the slowest that ended well.
    """

    def __init__(self, executor: Executor, path: Path, *, timeout: float) -> None:
        self._executor, self._path, self.timeout = executor, path, timeout
        self.made, self.slowest = 0, 0.0

    def ask(self, text: str, conditions: Conditions, plans: Sequence[Plan]) -> list[Outcome]:
        """Run a text once for each plan, in parallel."""
        self.made += len(plans)
        path, common = str(self._path), vars(conditions)
        requests = [ExactRequest(text=text, script=path, **common, **vars(plan)) for plan in plans]
        outcomes = self._executor.judge(requests, timeout=self.timeout)
        self.slowest = max([self.slowest, *(one.seconds for one in outcomes if one.ending is Ending.SAME)])
        return outcomes


@dataclass(frozen=True)
class ScriptRuns:
    """Runs of one text under one set of conditions."""

    children: Children
    text: str
    conditions: Conditions

    def ask(self, *plans: Plan) -> list[Outcome]:
        """One outcome for each plan."""
        return self.children.ask(self.text, self.conditions, plans)

    def logs(self, *plans: Plan) -> list[ExactLog | None]:
        """The log of each run; None for a run that ended neither well nor by an error of the script's own."""
        return [
            o.exact if o.ending in (Ending.SAME, Ending.RUNTIME_ERROR) and o.exact is not None else None
            for o in self.ask(*plans)
        ]

    def log(self, plan: Plan) -> ExactLog | None:
        """The log of one run."""
        (log,) = self.logs(plan)
        return log
