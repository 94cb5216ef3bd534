"""The passes: plain functions over a `Problem`, each of which makes its best program smaller in one way.

Invariants of all passes: they propose well-formed programs only, they ask the problem rather than the oracle, a pass
that made no progress makes none if it is run again at once, and no pass relies on the best program staying the same
while it runs.
"""

from minimizer.engine.reduce.graph.passes.arguments import arguments, operands, values
from minimizer.engine.reduce.graph.passes.bodies import bodies
from minimizer.engine.reduce.graph.passes.dimensions import dimensions
from minimizer.engine.reduce.graph.passes.guess import guess
from minimizer.engine.reduce.graph.passes.inner import inner
from minimizer.engine.reduce.graph.passes.inputs import generated, inputs
from minimizer.engine.reduce.graph.passes.lists import lists
from minimizer.engine.reduce.graph.passes.nodes import bypass, drop, window
from minimizer.engine.reduce.graph.passes.numbers import numbers
from minimizer.engine.reduce.graph.passes.outputs import outputs
from minimizer.engine.reduce.graph.passes.relations import relations
from minimizer.engine.reduce.graph.passes.shapes import shapes
from minimizer.engine.reduce.graph.passes.state import operators, state
from minimizer.engine.reduce.graph.passes.sweep import sweep

NODES = (numbers, window, operators, outputs, bypass, drop)
"""Passes that remove whole nodes, cheapest first."""

SIMPLER = (
    bodies, inner, lists, guess, inputs, relations, generated, operands, dimensions, shapes, arguments, values, state,
)  # fmt: skip
"""Passes that make the few remaining nodes easier to read."""

__all__ = ["NODES", "SIMPLER", "sweep"]
