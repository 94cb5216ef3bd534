"""The total order of programs: the smaller of two failing ones is the better repro."""

from __future__ import annotations

import json

from minimizer.engine.program import views
from minimizer.engine.program.arguments import encode
from minimizer.engine.program.model import Program
from minimizer.engine.reduce.graph.generators import rank

SortKey = tuple[int, ...]


def sort_key(program: Program) -> SortKey:
    """The key of a program, smaller is better: fewer calls, inputs, views of inputs, golden values and outputs, shorter text, and so on.

    Calls include those of bodies in use, such as the branches of ``torch.cond``.
    """
    return (
        sum(node.counts for node in program.every_node),
        len(program.nodes),
        len(program.inputs),
        sum(i.view is not None for i in program.inputs),
        sum(i.stored is not None for i in program.inputs),
        len(program.outputs),
        len(program.setup) + len(program.called),
        len(program.compile_kwargs) + len(program.around) + sum(len(program.marks(i)) for i in program.inputs),
        int(program.grad) + sum(i.meta.requires_grad for i in program.inputs if i.meta is not None),
        sum(i.meta.numel for i in program.inputs if i.meta is not None),
        sum(rank(i) for i in program.inputs),
        _text_length(program),
    )


def _text_length(program: Program) -> int:
    """The length of the program's text with canonical names, so that names never decide."""
    canonical = program.renamed()
    body = [[node.target, encode(node.args), encode(dict(node.kwargs))] for node in canonical.nodes]
    codes = [i.code if i.view is None else views.text(i.view) for i in canonical.inputs]
    return len(json.dumps([body, codes, program.setup, program.compile_kwargs, program.around]))
