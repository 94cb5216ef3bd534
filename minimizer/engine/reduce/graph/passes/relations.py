"""The pass for inputs that are views of other inputs: each becomes independent if the failure survives that."""

from __future__ import annotations

from collections.abc import Iterator

from minimizer.engine.program.model import Input, Program
from minimizer.engine.reduce.graph.generators import generators
from minimizer.engine.reduce.graph.passes.inputs import literals, made
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def relations(problem: ProgramProblem) -> None:
    """Make views independent inputs, created by code: golden values would still share the base's memory.

    Invariant: when nothing changes, no single view could be created by any generator or literal.
    """
    for name in [item.name for item in problem.best.inputs if item.view is not None]:
        problem.first(independent(problem.best, name), "relations")
        item = problem.best.input(name)
        if item.view is not None:
            problem.first(literals(problem, item), "relations")


def independent(program: Program, name: str) -> Iterator[Program]:
    """The program with this view made by each generator."""
    item: Input = program.input(name)
    if item.view is not None and item.meta is not None:
        yield from (made(generator, program, [name]) for generator in generators(item.meta))
