"""The passes: plain functions over a `Problem`, each of which makes its best program smaller in one way.

What all of them promise: they propose well-formed programs only, they ask the problem rather than the oracle, a pass that
made no progress makes none when it is run again at once, and no pass relies on the best program staying the same under it.
"""

from minimizer.engine.reduce.graph.passes.arguments import arguments, operands, values
from minimizer.engine.reduce.graph.passes.bodies import bodies
from minimizer.engine.reduce.graph.passes.dimensions import dimensions
from minimizer.engine.reduce.graph.passes.guess import guess
from minimizer.engine.reduce.graph.passes.inputs import generated, inputs
from minimizer.engine.reduce.graph.passes.lists import lists
from minimizer.engine.reduce.graph.passes.nodes import bypass, drop, window
from minimizer.engine.reduce.graph.passes.numbers import numbers
from minimizer.engine.reduce.graph.passes.outputs import outputs
from minimizer.engine.reduce.graph.passes.shapes import shapes
from minimizer.engine.reduce.graph.passes.state import operators, state
from minimizer.engine.reduce.graph.passes.sweep import sweep

NODES = (numbers, window, operators, outputs, bypass, drop)
"""What takes whole nodes out, cheapest question first."""

SIMPLER = (bodies, lists, guess, inputs, generated, operands, dimensions, shapes, arguments, values, state)
"""What makes the few nodes that are left easier to read."""

__all__ = ["NODES", "SIMPLER", "sweep"]
