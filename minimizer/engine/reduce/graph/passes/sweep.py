"""The final sweep, which proves that the result is 1-minimal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.passes.arguments import fewer_operands, without_keywords
from minimizer.engine.reduce.graph.passes.inputs import inlined, made_contiguous
from minimizer.engine.reduce.graph.passes.lists import elements, without_elements
from minimizer.engine.reduce.graph.passes.outputs import without
from minimizer.engine.reduce.graph.passes.relations import independent
from minimizer.engine.reduce.graph.passes.shapes import smaller_sizes
from minimizer.engine.reduce.graph.passes.state import (
    marks,
    without_compile_kwargs,
    without_contexts,
    without_grad,
    without_marks,
    without_requires_grad,
    without_setup,
)
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def sweep(problem: ProgramProblem) -> bool:
    """Try to remove every single thing; True if one could go. Known candidates are cache hits and cost no trial."""
    return problem.first(singles(problem.best), "sweep")


def singles(program: Program) -> Iterator[Program | None]:
    """The programs without one node, output, input, view, line, argument or gradient, or with one size one less."""
    for node in program.nodes:
        yield cut.drop(program, [node.name])
        yield cut.bypass(program, [node.name])
        yield cut.constants(program, [node.name])
    for output in program.outputs:
        yield without(program, [output])
    for item in program.inputs:
        yield inlined(program, [item.name])
        yield without_requires_grad(program, [item.name])
        yield made_contiguous(program, [item.name])
        yield from independent(program, item.name)
    for line in program.setup:
        yield without_setup(program, [line])
    for argument in program.compile_kwargs:
        yield without_compile_kwargs(program, [argument])
    for context in program.around:
        yield without_contexts(program, [context])
    for mark in marks(program):
        yield without_marks(program, [mark])
    yield without_grad(program) if program.grad else None
    yield replace(program, grad=False)
    for node in program.nodes:
        for key, _ in node.kwargs:
            yield without_keywords(program, [(node.name, key)])
        yield from fewer_operands(program, node.name)
    for element in elements(program):
        yield without_elements(program, [element])
    yield from smaller_sizes(program)
