"""Passes for less state: setup lines, arguments of ``torch.compile``, dynamic marks, gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from minimizer.engine.program.arguments import Code
from minimizer.engine.program.model import Input, Program
from minimizer.engine.reduce.graph.generators import generator_of
from minimizer.engine.reduce.graph.program_problem import ProgramProblem
from minimizer.engine.user_script.own_operators import own_operators, without_operators

Part = TypeVar("Part")


def state(problem: ProgramProblem) -> None:
    """Drop setup lines, arguments of ``torch.compile``, contexts and dynamic marks, and turn gradients off.

    Invariant: when nothing changes, no single line, argument, context, mark or ``requires_grad`` could go, nor gradients as a
    whole.
    """
    problem.shrink(problem.best.setup, without_setup, "setup")
    problem.shrink(problem.best.compile_kwargs, without_compile_kwargs, "compile arguments")
    problem.shrink(problem.best.around, without_contexts, "contexts")
    problem.shrink(marks(problem.best), without_marks, "dynamic marks")
    if problem.best.grad:
        problem.first([without_grad(problem.best), replace(problem.best, grad=False)], "gradients")
    wanting = [i.name for i in problem.best.inputs if i.meta is not None and i.meta.requires_grad]
    problem.shrink(wanting, without_requires_grad, "gradients")


def operators(problem: ProgramProblem) -> None:
    """Drop the registrations of uncalled custom operators, and the setup that only these need, all in one trial."""
    program = problem.best
    called = own_operators(node.target for node in program.every_node)
    texts = [text for _, text in program.compile_kwargs] + [item.code or "" for item in program.inputs]
    texts += [leaf.text for node in program.every_node for leaf in node.leaves() if isinstance(leaf, Code)]
    names = {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}
    names |= {node.target.partition(".")[0] for node in program.every_node}
    problem.judge([replace(program, setup=without_operators(program.setup, called, names))], "operators")


def without_setup(program: Program, lines: Sequence[str]) -> Program:
    """The program without one occurrence of each of these lines."""
    return replace(program, setup=_minus(program.setup, lines))


def without_compile_kwargs(program: Program, arguments: Sequence[tuple[str, str]]) -> Program:
    """The program without these arguments of ``torch.compile``."""
    return replace(program, compile_kwargs=_minus(program.compile_kwargs, arguments))


def without_contexts(program: Program, contexts: Sequence[str]) -> Program:
    """The program called outside of these contexts."""
    return replace(program, around=_minus(program.around, contexts))


def marks(program: Program) -> list[tuple[str, int]]:
    """Every dimension that is marked dynamic, with its input."""
    return [(item.name, dim) for item in program.inputs for dim in program.marks(item)]


def without_marks(program: Program, gone: Sequence[tuple[str, int]]) -> Program:
    """The program with these dimensions not marked dynamic."""

    def unmarked(item: Input) -> Input:
        if item.meta is None:
            return item
        left = tuple(dim for dim in item.meta.symbolic if (item.name, dim) not in gone)
        return replace(item, meta=replace(item.meta, symbolic=left))

    return replace(program, inputs=tuple(map(unmarked, program.inputs)))


def without_grad(program: Program) -> Program:
    """The program under ``torch.no_grad()``, with inputs that do not require gradients."""
    plain = without_requires_grad(program, [i.name for i in program.inputs])
    return replace(plain, grad=False)


def without_requires_grad(program: Program, names: Sequence[str]) -> Program:
    """The program with these inputs not requiring gradients."""

    def plain(item: Input) -> Input:
        if item.name not in names or item.meta is None or not item.meta.requires_grad:
            return item
        meta = replace(item.meta, requires_grad=False)
        made_by = generator_of(item)
        return replace(item, meta=meta, code=made_by.code(meta, grad=False) if made_by else item.code)

    return replace(program, inputs=tuple(map(plain, program.inputs)))


def _minus(have: tuple[Part, ...], gone: Sequence[Part]) -> tuple[Part, ...]:
    left = list(have)
    for item in gone:
        if item in left:
            left.remove(item)
    return tuple(left)
