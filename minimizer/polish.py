"""The last polish of a repro: what the passes, backends and operators that travel with it can do without.

They come as the script wrote them, a definition a setup line. Here each is reduced as a script is, statement by statement, under
the oracle of the graph. Lines that only served what is gone go with it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace

from minimizer.program import Program
from minimizer.script import Source, reduce_definitions

Check = Callable[[Sequence[Program]], Sequence[bool]]


def polish(program: Program, check: Check, *, jobs: int = 1) -> Program:
    """Leave out what is inside of the definitions in ``program.setup`` and not needed for the failure."""
    for text in program.setup:
        source = Source.parse(text)
        if source.level(1):
            program = _polished(program, program.setup.index(text), source, check, jobs)
    return program


def _polished(program: Program, index: int, source: Source, check: Check, jobs: int) -> Program:
    before, after = program.setup[:index], program.setup[index + 1 :]

    def holding(candidate: Source) -> Program:
        setup = _without_orphans(program.setup, [*before, candidate.text.rstrip(), *after])
        return replace(program, setup=tuple(setup))

    smallest = reduce_definitions(source, check=lambda sources: check([holding(s) for s in sources]), jobs=jobs)
    return program if smallest is source else holding(smallest)


def _without_orphans(old: Sequence[str], new: Sequence[str]) -> Sequence[str]:
    """Without the imports and assignments in ``new`` whose names were read in ``old``, and are no more."""
    orphans = _read(old) - _read(new)
    kept = [line for line in new if not (_bound(line) and _bound(line) <= orphans)]
    return new if len(kept) == len(new) else _without_orphans(old, kept)


def _bound(line: str) -> set[str]:
    """The names that an import or a plain assignment binds; empty for any other line."""
    statement = next(iter(ast.parse(line).body), None)
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _read(lines: Sequence[str]) -> set[str]:
    nodes = [node for line in lines for node in ast.walk(ast.parse(line))]
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
