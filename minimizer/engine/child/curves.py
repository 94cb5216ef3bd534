"""The losses of a training script, and biased results of its graphs, as sent by the child: untrusted and bounded.

Written by ``inside/watch/losses.py`` and ``inside/referee/bias.py``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, model_validator

from minimizer.engine.child.bounded import Count, Line, Loose, Name, Number, Seconds
from minimizer.engine.child.compilations import StackLine

TrainingStep = tuple[Annotated[int, Field(ge=0, le=1000)], float, Number, Number]
"""A backward: the index of its line, the loss, and the norms of gradients and parameters at the next optimizer step."""


class Curve(Loose):
    """The backwards of a run in order. ``lines``: those that call a backward. ``took``: seconds of the run."""

    lines: list[Line] = Field(default_factory=list, max_length=1000)
    steps: list[TrainingStep] = Field(default_factory=list, max_length=5000)
    took: Seconds = 0.0

    @model_validator(mode="after")
    def _has_the_lines_of_its_steps(self) -> Curve:
        if any(step[0] >= len(self.lines) for step in self.steps):
            raise ValueError("a step is of a line that is not there")
        return self


class SignedError(Loose):
    """A biased result of a graph, or of one of its nodes.

    ``mean``: the mean signed error over ``calls`` calls, in roundings of ``dtype``; ``error``: its standard error;
    ``eager``: the mean of eager's own. ``where``: ``output[0]``, ``grad[1]``. ``is_node``: whether the operator shows
    it in isolation.
    """

    place: StackLine
    module: Name = ""
    op: Name = ""
    where: Name = ""
    dtype: Name = ""
    side: Literal["upwards", "downwards", "away from zero", "towards zero"]
    is_node: bool
    calls: Count
    mean: FiniteFloat
    error: Annotated[FiniteFloat, Field(gt=0)]
    eager: FiniteFloat


class Examined(Loose):
    """The extent of the search for biased results.

    ``results``: those with enough calls to be judged. ``few``: graphs that were called often enough, but with too few
    kept calls; ``failed``: those whose calls could not be rerun. ``is_late``: whether its time was over first.
    """

    results: Count = 0
    few: Count = 0
    failed: Count = 0
    is_late: bool = False
