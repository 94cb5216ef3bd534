"""The order of passes, and the proof at the end that nothing single can go."""

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
"""Does each program of a batch still fail in the same way? May raise BudgetExceeded or Cancelled."""


@dataclass(frozen=True)
class Reduced(Generic[C]):
    """The smallest candidate found, and how it was found.

    ``history`` holds one step for each accepted candidate. ``one_minimal`` says that no single
    node, input, output, line, argument or dimension can go; false if time ran out before that was shown.
    """

    best: C
    one_minimal: bool
    trials: int
    cache_hits: int
    history: list[HistoryStep]
    seconds: float

    @staticmethod
    def by(run: Callable[[], None], problem: Problem[C]) -> Reduced[C]:
        """What becomes of a problem when its passes run: the best so far where the time or the owner ends them."""
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
    """Reduce a failing program to one from which nothing single can be taken.

    ``program`` is taken to fail: it is not tried again. ``check`` gets batches of at most ``jobs`` candidates, and
    ``watch`` is called between them. When either raises BudgetExceeded or Cancelled the best program so far is returned.
    """
    problem = ProgramProblem(program, check=check, literal=literal, on_step=on_step, jobs=jobs, watch=watch)
    return Reduced.by(lambda: _run(problem), problem)


def _run(problem: ProgramProblem) -> None:
    """Tiers to a fixpoint: nodes while golden values are known, then all that is simpler to judge on few nodes."""
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
