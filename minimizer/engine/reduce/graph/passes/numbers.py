"""The pass that makes symbolic sizes, and numbers computed from them, constants where the failure survives that."""

from __future__ import annotations

from dataclasses import replace

from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def numbers(problem: ProgramProblem) -> None:
    """Make the program static if it still fails, else as few numbers symbolic as possible.

    Invariant: when nothing changes, no single symbolic number could be a constant.
    """
    if problem.first([static(problem.best)], "numbers"):
        return
    problem.shrink([node.name for node in problem.best.nodes if node.number is not None], cut.constants, "numbers")


def static(program: Program) -> Program | None:
    """The program with constants for all symbolic numbers, compiled for static sizes; None if it is so already."""
    kwargs = tuple((key, value) for key, value in program.compile_kwargs if key != "dynamic")
    plain = cut.constants(program, [node.name for node in program.nodes]) or program
    plain = replace(plain, compile_kwargs=kwargs, marked=False)
    return None if plain == program else plain
