"""The total order of programs: which of two that both fail is the better repro."""

from __future__ import annotations

import json

from minimizer.engine.program.arguments import encode
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph.generators import rank

SortKey = tuple[int, ...]


def sort_key(program: Program) -> SortKey:
    """Smaller is better: fewer calls first, those of branches and other bodies included, then fewer inputs, less data, less state, smaller tensors, shorter text."""
    return (
        sum(node.counts for node in program.every_node),
        len(program.nodes),
        len(program.inputs),
        sum(i.golden is not None for i in program.inputs),
        len(program.outputs),
        len(program.setup) + len(program.called),
        len(program.compile_kwargs) + sum(len(program.marks(i)) for i in program.inputs),
        int(program.grad) + sum(i.meta.requires_grad for i in program.inputs if i.meta is not None),
        sum(i.meta.numel for i in program.inputs if i.meta is not None),
        sum(rank(i) for i in program.inputs),
        _text_length(program),
    )


def _text_length(program: Program) -> int:
    """Length of the program's text; names are made canonical first, so that they never decide."""
    canonical = program.renamed()
    body = [[node.target, encode(node.args), encode(dict(node.kwargs))] for node in canonical.nodes]
    codes = [i.code for i in program.inputs]
    return len(json.dumps([body, codes, program.setup, program.compile_kwargs]))
