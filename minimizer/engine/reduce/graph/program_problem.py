"""The problem of a program: besides the verdicts it knows the total order of programs and their golden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph.order import sort_key
from minimizer.engine.reduce.problem import OnStep, Problem

Literal = Callable[[str], str | None]
"""Source text of the golden value of that key if it is small, or of what may do in its place; else None."""


class ProgramProblem(Problem[Program]):
    """A failing program on its way down."""

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
        self.literal = literal
