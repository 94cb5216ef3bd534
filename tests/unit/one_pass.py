"""Runs one pass over a script."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from minimizer.engine.reduce.problem import Problem
from minimizer.engine.reduce.python import Source
from minimizer.engine.reduce.python.reducer import Pass


def reduced(text: str, by: Pass, needs: Sequence[str]) -> str:
    """What a pass makes of a script whose fault needs these texts."""
    source = Source.parse(textwrap.dedent(text))

    def check(candidates: Sequence[Source]) -> list[bool]:
        return [all(word in candidate.text for word in needs) for candidate in candidates]

    problem = Problem(source, check=check, key=lambda s: s.key, on_step=lambda step, best: None, jobs=2)
    by(problem)
    return problem.best.text.strip()
