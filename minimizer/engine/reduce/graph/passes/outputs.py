"""The pass for fewer outputs."""

from __future__ import annotations

from collections.abc import Sequence

from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

FEW = 4


def outputs(problem: ProgramProblem) -> None:
    """Drop outputs, and the nodes that only they needed.

    Invariant: when nothing changes, no single output could be dropped.
    """
    names = problem.best.outputs
    if 1 < len(names) <= FEW and problem.first((cut.select_outputs(problem.best, [name]) for name in names), "outputs"):
        return
    problem.shrink(names, without, "outputs")


def without(program: Program, names: Sequence[str]) -> Program | None:
    """The program without these outputs; None if no node would be left."""
    return cut.select_outputs(program, [name for name in program.outputs if name not in names])
