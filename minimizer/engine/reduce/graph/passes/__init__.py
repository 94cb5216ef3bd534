"""The passes: plain functions over a `Problem`, each of which makes its best program smaller in one way.

What all of them promise: they propose well-formed programs only, they ask the problem rather than the oracle, a pass that
made no progress makes none when it is run again at once, and no pass relies on the best program staying the same under it.
"""

from minimizer.reduce.passes.arguments import arguments, operands, values
from minimizer.reduce.passes.bodies import bodies
from minimizer.reduce.passes.dimensions import dimensions
from minimizer.reduce.passes.guess import guess
from minimizer.reduce.passes.inputs import generated, inputs
from minimizer.reduce.passes.nodes import bypass, drop, window
from minimizer.reduce.passes.numbers import numbers
from minimizer.reduce.passes.outputs import outputs
from minimizer.reduce.passes.shapes import shapes
from minimizer.reduce.passes.state import state
from minimizer.reduce.passes.sweep import sweep

NODES = (numbers, window, outputs, bypass, drop)
"""What takes whole nodes out, cheapest question first."""

SIMPLER = (bodies, guess, inputs, generated, operands, dimensions, shapes, arguments, values, state)
"""What makes the few nodes that are left easier to read."""

__all__ = ["NODES", "SIMPLER", "sweep"]
