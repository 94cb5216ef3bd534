"""Reduction of graphs: from a failing program to a 1-minimal one.

`reduce` is the whole interface. `Problem` is the one accept point (for programs: `ProgramProblem`), the passes propose
candidates, `cut` removes and bypasses nodes, `generators` write the code of inputs, and `order` is the order of
programs.
"""

from minimizer.engine.reduce.graph.program_problem import Literal
from minimizer.engine.reduce.graph.reducer import Check, Reduced, reduce
from minimizer.engine.reduce.problem import OnStep

__all__ = ["Check", "Literal", "OnStep", "Reduced", "reduce"]
