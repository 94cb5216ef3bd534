"""Decides which candidates that launch the script's own Triton kernels may run.

A kernel gets sizes as numbers, and accesses memory past the end of a tensor that is smaller than it was told: the two
sides then compute from arbitrary memory, which is no evidence. So a program that launches a kernel keeps the memory
layout of its inputs, the values of integer inputs, and the arguments of its nodes, until the launch itself is removed.
"""

from __future__ import annotations

from collections.abc import Mapping

from minimizer.engine.program.arguments import Arg, Code, Ref, map_leaves
from minimizer.engine.program.model import Input, Node, Program, TensorMeta

_ANY = Code("any value")


def may_run(candidate: Program, original: Program) -> bool:
    """Whether each kernel that a candidate launches still gets what the original program tells it."""
    if not candidate.kernels:
        return True
    known, metas = {node.name: node for node in original.every_node}, original.metas
    given = {item.name: item for item in original.inputs}
    return all(_is_as_given(item, given.get(item.name), metas.get(item.name)) for item in candidate.inputs) and all(
        node.name in known and _told(node, metas) == _told(known[node.name], metas) for node in candidate.every_node
    )


def _is_as_given(item: Input, before: Input | None, meta: TensorMeta | None) -> bool:
    """Whether an input has its original memory layout; an integer one, which may hold indices into another tensor, also
    its values.
    """
    if item.meta is None:
        return before is not None and item == before
    if meta is None or (item.meta.shape, item.meta.stride, item.meta.dtype) != (meta.shape, meta.stride, meta.dtype):
        return False
    is_float = item.meta.dtype.removeprefix("torch.").startswith(("float", "bfloat", "complex"))
    return is_float or item.code is None or (before is not None and item.code == before.code)


def _told(node: Node, metas: Mapping[str, TensorMeta | None]) -> tuple[str, Arg, Arg]:
    """The target and the arguments of a node, with the memory layout in place of each operand."""

    def constant(leaf: Arg) -> Arg:
        meta = metas.get(leaf.name) if isinstance(leaf, Ref) else None
        if meta is not None:
            return Code(f"{meta.dtype} {meta.shape} {meta.stride}")
        return _ANY if isinstance(leaf, Ref) else leaf

    return node.target, map_leaves(list(node.args), constant), map_leaves(dict(node.kwargs), constant)
