"""What the diagnosis and the table of layers need and find, as values: `fold` puts the findings into the report.

Each of them takes what it needs, and hands what it knows so far to ``keep``, as often as it knows more: a step that is stopped in its
middle keeps what it had.
"""

from __future__ import annotations

from dataclasses import dataclass

from minimizer.report.culprit import Culprit, GraphNode, Layer
from minimizer.report.model import Blame, Flag, Rung, Workaround
from minimizer.vocabulary import Stage


@dataclass(frozen=True)
class Failing:
    """A failure that is to be diagnosed. ``said``: its message and traceback. ``ladder``: its rungs. ``device``: ``cpu`` or ``cuda``."""

    stage: Stage
    said: str
    culprit: Culprit
    ladder: tuple[Rung, ...]
    device: str


@dataclass(frozen=True)
class Diagnosed:
    """The part of the compiler to blame, settings that were tried, and a workaround, each as far as it is known."""

    blame: Blame | None = None
    flags: tuple[Flag, ...] = ()
    workaround: Workaround | None = None


@dataclass(frozen=True)
class Described:
    """The table of layers, and the graph around the culprit; None for what is not known."""

    layers: tuple[Layer, ...] | None = None
    graph: tuple[GraphNode, ...] | None = None
