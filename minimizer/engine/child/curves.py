"""The losses of a script that trains, and results of its graphs that are off to one side, as the child sends them: untrusted and bounded.

Written by ``inside/watch/losses.py`` and ``inside/referee/bias.py``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from minimizer.engine.child.bounded import Count, Line, Loose, Name, Number, Seconds
from minimizer.engine.child.compilations import StackLine

Step = tuple[Annotated[int, Field(ge=0, le=1000)], float, Number, Number]
"""A backward: the number of its line, the loss, and the norms of gradients and parameters at the step of an optimizer behind it."""


class Curve(Loose):
    """The backwards of a run in order. ``lines``: those that call one. ``took``: seconds of the run."""

    lines: list[Line] = Field(default_factory=list, max_length=1000)
    steps: list[Step] = Field(default_factory=list, max_length=5000)
    took: Seconds = 0.0


class SignedError(Loose):
    """A result of a graph, or of one of its nodes, whose compiled values are off to one side.

    ``mean``: the mean signed error over ``calls`` calls, in roundings of ``dtype``; ``error``: its standard error; ``eager``: the mean of
    eager's own. ``where``: ``output[0]``, ``grad[1]``. ``is_node``: whether the operator shows it alone.
    """

    place: StackLine
    module: Name = ""
    op: Name = ""
    where: Name = ""
    dtype: Name = ""
    side: Literal["upwards", "downwards", "away from zero", "towards zero"]
    is_node: bool
    calls: Count
    mean: float
    error: float
    eager: float
