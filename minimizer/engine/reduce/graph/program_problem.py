"""The `Problem` of a program, with the total order of programs and access to golden values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minimizer.engine.program.model import Program
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
        """As `Problem.judge`; a candidate whose kernels would leave their tensors is not run."""
        return super().judge([c if c is not None and may_run(c, self._original) else None for c in candidates], by)
