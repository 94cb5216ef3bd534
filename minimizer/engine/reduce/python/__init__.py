"""Reduction at the script level: where no FX graph carries the failure, the script itself is the candidate.

Dynamo's own failures, graph breaks, guards, hooks, side effects and inputs that no file can hold show in the script
only. It is reduced by edits of its syntax tree, under the same rule as a graph: it must end well without the compiler,
and fail in the same way with it. Comments and layout do not matter: a candidate is its text as ``ast.unparse`` writes
it.
"""

from minimizer.engine.reduce.python.reducer import Check, reduce_definitions, reduce_script, reduction_of
from minimizer.engine.reduce.python.rerun import Rerun
from minimizer.engine.reduce.python.source import Source

__all__ = ["Check", "Rerun", "Source", "reduce_definitions", "reduce_script", "reduction_of"]
