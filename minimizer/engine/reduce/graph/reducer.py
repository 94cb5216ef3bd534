"""Runs the passes in order, and ends with the sweep that proves the result 1-minimal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic

from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import passes
from minimizer.engine.reduce.graph.program_problem import Literal, ProgramProblem
from minimizer.engine.reduce.problem import C, OnStep, Problem
from minimizer.errors import BudgetExceeded, Cancelled
from minimizer.report.model import HistoryStep

Pass = Callable[[ProgramProblem], None]
Check = Callable[[Sequence[Program]], Sequence[bool]]
"""Whether each program of a batch still fails in the same way; may raise BudgetExceeded or Cancelled."""


@dataclass(frozen=True)
class Reduced(Generic[C]):
    """The smallest candidate found, and the counts of its reduction.

    ``history``: one step for each accepted candidate. ``one_minimal``: no single node, input, output, line, argument or
    dimension can go; false if time ran out before that was shown.
    """

    best: C
    one_minimal: bool
    trials: int
    cache_hits: int
    history: list[HistoryStep]
    seconds: float

    @staticmethod
    def by(run: Callable[[], None], problem: Problem[C]) -> Reduced[C]:
        """Run the passes of a problem; returns the best so far if the time or the owner ends them."""
        one_minimal = False
        with suppress(BudgetExceeded, Cancelled):
            run()
            one_minimal = True
        return Reduced(
            best=problem.best,
            one_minimal=one_minimal,
            trials=problem.trials,
            cache_hits=problem.cache_hits,
            history=problem.history,
            seconds=problem.seconds,
        )


def reduce(
    program: Program,
    *,
    check: Check,
    literal: Literal,
    on_step: OnStep[Program] = lambda step, program: None,
    jobs: int = 1,
    watch: Callable[[], None] = lambda: None,
) -> Reduced[Program]:
    """Reduce a failing program to a 1-minimal one.

    ``program`` must fail: it is not tried again. ``check`` gets batches of at most ``jobs`` candidates, and ``watch``
    is called between them. If either raises BudgetExceeded or Cancelled, the best program so far is returned.
    """
    problem = ProgramProblem(program, check=check, literal=literal, on_step=on_step, jobs=jobs, watch=watch)
    return Reduced.by(lambda: _run(problem), problem)


def _run(problem: ProgramProblem) -> None:
    """Run the passes to a fixpoint: those over nodes while golden values are known, then the simplifying ones."""
    while True:
        _fixpoint(problem, passes.NODES)
        for simplify in passes.SIMPLER:
            simplify(problem)
        if not passes.sweep(problem):
            return


def _fixpoint(problem: ProgramProblem, tier: tuple[Pass, ...]) -> None:
    while True:
        before = problem.best
        for reduce_by in tier:
            reduce_by(problem)
        if problem.best is before:
            return
