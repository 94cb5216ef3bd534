"""Reduction: from a program that fails to one from which nothing single can be taken.

`reduce` is the whole interface. `Problem` is the one accept point (of programs: `ProgramProblem`), the passes propose, `cut`
does surgery on programs, `generators` write the code of inputs, and `order` says which of two programs is the better one.
"""

from minimizer.engine.reduce.graph.program_problem import Literal
from minimizer.engine.reduce.graph.reducer import Check, Reduced, reduce
from minimizer.engine.reduce.problem import OnStep

__all__ = ["Check", "Literal", "OnStep", "Reduced", "reduce"]
