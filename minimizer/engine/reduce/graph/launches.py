"""Which candidates may run that launch Triton kernels of the script's own.

A kernel is told sizes as numbers, and reads and writes behind the end of a tensor that is smaller than it was told: what two sides compute
then is no evidence, and what lies there may be anybody's. So a program that launches one keeps the shapes of its inputs and the
arguments of its nodes, until the launch itself has gone.
"""

from __future__ import annotations

from minimizer.engine.program.arguments import Arg, Code, Ref, map_leaves
from minimizer.engine.program.model import Node, Program

_ANY = Code("any value")


def may_run(candidate: Program, original: Program) -> bool:
    """Whether each kernel that a candidate launches still has what it was told of in the original program."""
    if not candidate.kernels:
        return True
    known = {node.name: node for node in original.every_node}
    shapes = {name: meta.shape for name, meta in original.metas.items() if meta is not None}
    keeps_shapes = all(item.meta is None or item.meta.shape == shapes.get(item.name) for item in candidate.inputs)
    return keeps_shapes and all(_is_as_told(node, known.get(node.name)) for node in candidate.every_node)


def _is_as_told(node: Node, before: Node | None) -> bool:
    return before is not None and _told(node) == _told(before)


def _told(node: Node) -> tuple[str, Arg, Arg]:
    """The target and the arguments of a node, whichever values it takes."""

    def constant(leaf: Arg) -> Arg:
        return _ANY if isinstance(leaf, Ref) else leaf

    return node.target, map_leaves(list(node.args), constant), map_leaves(dict(node.kwargs), constant)
