"""The pass that guesses the simplest inputs first, on which most faults of a single operator show."""

from __future__ import annotations

from dataclasses import replace

from minimizer.engine.program.model import Input, Program
from minimizer.engine.reduce.graph.generators import generators
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

FEW_NODES = 2
"""Most nodes of a program to guess for: larger ones seldom survive a change of every shape at once."""


def guess(problem: ProgramProblem) -> None:
    """Replace golden inputs, and views, by ``torch.ones(1)``; in parallel, or else after it, by random values of their shapes.

    If the first guess holds, it saves the ten steps that `generated`, `dimensions`, `shapes` and `values` take to the
    same end. If not, it costs one trial, which with two jobs runs in parallel to the second, needed in any case.
    """
    program = problem.best
    if program.size <= FEW_NODES and any(i.golden is not None for i in program.inputs):
        problem.first([_simplest(program, "ones", (1,)), _simplest(program, "randn", None)], "guess")


def _simplest(program: Program, name: str, shape: tuple[int, ...] | None) -> Program:
    """The program with all golden inputs made by the generator ``name``, or the first one, in this shape if given."""

    def make(item: Input) -> Input:
        if item.golden is None or item.meta is None or not generators(item.meta):
            return item
        meta = item.meta if shape is None else item.meta.reshaped(shape if item.meta.shape else ())
        kinds = generators(meta)
        made_by = next((g for g in kinds if g.name == name), kinds[0])
        return replace(item, golden=None, view=None, meta=meta, code=made_by.code(meta, grad=program.grad))

    nodes = program.nodes if shape is None else tuple(replace(n, meta=None) for n in program.nodes)
    return replace(program, inputs=tuple(map(make, program.inputs)), nodes=nodes)
