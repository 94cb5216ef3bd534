"""The last polish of a repro: what the passes, backends and operators that travel with it can do without.

They come as the script wrote them, a definition a setup line. Here each is reduced as a script is, statement by statement, under
the oracle of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from minimizer.program import Program
from minimizer.script import Source, reduce_definitions

Check = Callable[[Sequence[Program]], Sequence[bool]]


def polish(program: Program, check: Check, *, jobs: int = 1) -> Program:
    """Leave out what is inside of the definitions in ``program.setup`` and not needed for the failure."""
    for index, text in enumerate(program.setup):
        source = Source.parse(text)
        if source.level(1):
            program = _polished(program, index, source, check, jobs)
    return program


def _polished(program: Program, index: int, source: Source, check: Check, jobs: int) -> Program:
    before, after = program.setup[:index], program.setup[index + 1 :]

    def holding(candidate: Source) -> Program:
        return replace(program, setup=(*before, candidate.text.rstrip(), *after))

    smallest = reduce_definitions(source, check=lambda sources: check([holding(s) for s in sources]), jobs=jobs)
    return program if smallest is source else holding(smallest)
