"""Passes for fewer and simpler inputs: scalars become constants, golden values become expressions.

Two inputs are never merged into one: if an operator mutates one of them, that would be another program.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from minimizer.engine.program.arguments import Arg
from minimizer.engine.program.model import Input, Program, contiguous
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.generators import (
    FLOAT,
    NONFINITE,
    Generator,
    generator_of,
    generators,
    nonfinite,
)
from minimizer.engine.reduce.graph.program_problem import ProgramProblem


def inputs(problem: ProgramProblem) -> None:
    """Inline scalar inputs as constants.

    Invariant: when nothing changes, no single scalar could be inlined.
    """
    problem.shrink([i.name for i in problem.best.inputs if _scalar(i) is not None], inlined, "inputs")


def generated(problem: ProgramProblem) -> None:
    """Replace golden values by code: a generator (random, ranges, ones), or else a small literal.

    Inputs of one family of dtypes are tried all at once, then as few as possible stay golden. Strides are kept at first,
    then made contiguous where possible.

    Invariant: when nothing changes, no single golden input could be made by any generator or literal.
    """
    for family in _families(problem.best):
        for generator in family:
            golden = [i.name for i in _golden(problem.best) if i.meta is not None and generators(i.meta) == family]
            if golden and problem.judge([made(generator, problem.best, golden)], "inputs to code")[0]:
                break
        for generator in family:
            golden = [i.name for i in _golden(problem.best) if i.meta is not None and generators(i.meta) == family]
            problem.shrink(golden, partial(made, generator), "inputs to code", whole=False)
    for item in _golden(problem.best):
        problem.first(literals(problem, item), "inputs to code")
    plain = [i.name for i in problem.best.inputs if i.meta is not None and not i.meta.is_contiguous]
    problem.shrink(plain, made_contiguous, "strides")


def inlined(program: Program, names: Sequence[str]) -> Program | None:
    """The program with these scalar inputs as constants; None if none of them is a scalar."""
    scalars = {i.name: _scalar(i) for i in program.inputs if i.name in names and i.name not in program.outputs}
    values = {name: value for name, value in scalars.items() if value is not None}
    return cut.substitute(program, values) if values else None


def made(generator: Generator, program: Program, names: Sequence[str]) -> Program:
    """The program with these inputs, golden ones or views, made by a generator."""

    def make(item: Input) -> Input:
        if item.name not in names or item.meta is None:
            return item
        return replace(item, golden=None, view=None, code=generator.code(item.meta, grad=program.grad))

    return replace(program, inputs=tuple(map(make, program.inputs)))


def made_contiguous(program: Program, names: Sequence[str]) -> Program | None:
    """The program with these generated inputs contiguous; None if none is generated."""
    changed = False
    inputs: list[Input] = []
    for item in program.inputs:
        source = generator_of(item) if item.name in names else None
        if source is not None and item.meta is not None:
            meta = replace(item.meta, stride=contiguous(item.meta.shape))
            item = replace(item, meta=meta, code=source.code(meta, grad=program.grad))
            changed = True
        inputs.append(item)
    return replace(program, inputs=tuple(inputs)) if changed else None


def _golden(program: Program) -> list[Input]:
    return [i for i in program.inputs if i.stored is not None]


def _families(program: Program) -> list[tuple[Generator, ...]]:
    found = [generators(i.meta) for i in _golden(program) if i.meta is not None]
    return list(dict.fromkeys(found))


def literals(problem: ProgramProblem, item: Input) -> Iterator[Program | None]:
    """The program with a small golden input, or view, as a literal.

    If it has NaN or infinities, first filled with them.
    """
    code = problem.literal(item.golden) if item.golden is not None else None
    if code is None or item.meta is None:
        return
    if generators(item.meta) is FLOAT:
        yield from (made(g, problem.best, [item.name]) for g in NONFINITE if nonfinite(g.name) in code)
    if problem.best.grad and item.meta.requires_grad:
        code += ".requires_grad_()"
    changed = replace(item, golden=None, view=None, code=code, meta=replace(item.meta, stride=None))
    yield replace(problem.best, inputs=tuple(changed if i == item else i for i in problem.best.inputs))


def _scalar(item: Input) -> Arg:
    """The value of an input that is a plain number; None for tensors."""
    if item.code is None or item.meta is not None:
        return None
    try:
        value = ast.literal_eval(item.code)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, bool | int | float) else None
