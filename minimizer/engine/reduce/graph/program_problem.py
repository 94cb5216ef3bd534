"""The `Problem` of a program, with the total order of programs and access to golden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from minimizer.engine.program.model import Input, Program
from minimizer.engine.program.views import followed
from minimizer.engine.reduce.graph.generators import generators
from minimizer.engine.reduce.graph.launches import may_run
from minimizer.engine.reduce.graph.order import sort_key
from minimizer.engine.reduce.problem import OnStep, Problem

Literal = Callable[[str], str | None]
"""Maps the key of a golden value to its source text, if it is small or has a substitute; else to None."""


class ProgramProblem(Problem[Program]):
    """The reduction of a failing program."""

    def __init__(
        self,
        program: Program,
        *,
        check: Callable[[Sequence[Program]], Sequence[bool]],
        literal: Literal,
        on_step: OnStep[Program],
        jobs: int,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(program, check=check, key=sort_key, on_step=on_step, jobs=jobs, watch=watch)
        self.literal, self._original = literal, program

    def judge(self, candidates: Sequence[Program | None], by: str) -> list[bool | None]:
        """As `Problem.judge`, but a candidate is not run if its kernels would leave their tensors, or its base cannot
        have a view.
        """
        fitting = [None if c is None else consistent(c) for c in candidates]
        return super().judge([c if c is not None and may_run(c, self._original) else None for c in fitting], by)


def consistent(program: Program) -> Program | None:
    """The program with the metadata of its views recomputed from their bases; None if a base cannot have such a view.

    A view with a changed layout has lost its golden value: without its base a generator would create it.
    """
    inputs = followed(program.inputs)
    if inputs is None or inputs == program.inputs:
        return None if inputs is None else program
    made = [_made(new, program) if new != old else new for new, old in zip(inputs, program.inputs, strict=True)]
    return replace(program, inputs=tuple(made))


def _made(item: Input, program: Program) -> Input:
    if item.meta is None or not generators(item.meta):
        return item
    return replace(item, golden=None, code=generators(item.meta)[0].code(item.meta, grad=program.grad))
