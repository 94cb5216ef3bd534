"""The pass for shorter lists of tensors in arguments: ``cat([a, b, c])``, ``_foreach_add_([a, b], [c, d])``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from minimizer.engine.program.arguments import Arg, Ref
from minimizer.engine.program.model import Node, Program
from minimizer.engine.reduce.graph import cut
from minimizer.engine.reduce.graph.program_problem import ProgramProblem

Element = tuple[str, int]
"""(node, index) of an element in a call's lists. Lists of equal length shrink together, as foreach operators need."""


def lists(problem: ProgramProblem) -> None:
    """Drop elements of list arguments.

    Invariant: when nothing changes, no single element of a list of tensors could go.
    """
    problem.shrink(list(elements(problem.best)), without_elements, "list arguments")


def elements(program: Program) -> Iterator[Element]:
    """Every element of a list of at least two tensors."""
    tensors = {item.name for item in program.inputs if item.meta is not None}
    tensors |= {node.name for node in program.nodes if node.number is None}
    for node in program.nodes:
        length = _length(node, tensors)
        yield from ((node.name, index) for index in range(length) if length > 1)


def without_elements(program: Program, gone: Sequence[Element]) -> Program | None:
    """The program without these elements, nodes only they needed, and inputs returned only because they were mutated.

    None if a list would become empty, or if the part of the result that belongs to an element is still used.
    """
    indices: dict[str, set[int]] = {}
    for name, index in gone:
        indices.setdefault(name, set()).add(index)
    tensors = {item.name for item in program.inputs} | {node.name for node in program.nodes}
    nodes: list[Node] = []
    results: dict[str, set[int]] = {}
    for node in program.nodes:
        if node.name in indices:
            length = _length(node, tensors)
            if length <= len(indices[node.name]):
                return None
            if node.meta is None:  # the result is a list too
                results[node.name] = indices[node.name]
            node = _shorter(node, length, indices[node.name])
        elif (part := _part(node)) is not None and part[0] in results:
            missing = results[part[0]]
            if part[1] in missing:
                return None
            node = replace(node, args=(node.args[0], part[1] - sum(index < part[1] for index in missing)))
        nodes.append(node)
    if any(node.meta is not None for node in program.nodes if node.name in indices):
        nodes = [replace(node, meta=None) for node in nodes]  # of another shape, from there on
    inputs = {item.name for item in program.inputs}
    shorter = replace(
        program, nodes=tuple(nodes), outputs=tuple(name for name in program.outputs if name not in inputs)
    )
    used = {ref for node in shorter.without_dead_code(cut.is_pure).nodes for ref in node.refs()}
    outputs = tuple(name for name in program.outputs if name not in inputs or name in used) or program.outputs
    return replace(shorter, outputs=outputs).without_dead_code(cut.is_pure)


def _length(node: Node, tensors: set[str]) -> int:
    """The length of a node's first list of tensors; 0 if it has none."""
    lists = [value for value in _values(node) if isinstance(value, list | tuple) and value]
    ours = [value for value in lists if all(isinstance(leaf, Ref) and leaf.name in tensors for leaf in value)]
    return len(ours[0]) if ours else 0


def _shorter(node: Node, length: int, gone: set[int]) -> Node:
    def change(value: Arg) -> Arg:
        if not isinstance(value, list | tuple) or len(value) != length:
            return value
        return type(value)(item for index, item in enumerate(value) if index not in gone)

    return replace(node, args=tuple(map(change, node.args)), kwargs=tuple((key, change(v)) for key, v in node.kwargs))


def _values(node: Node) -> list[Arg]:
    return [*node.args, *(value for _, value in node.kwargs)]


def _part(node: Node) -> Element | None:
    """The (value, index) of a ``getitem`` node with an integer index; None for other nodes."""
    if node.target != "operator.getitem" or len(node.args) != 2:
        return None
    whole, index = node.args
    return (whole.name, index) if isinstance(whole, Ref) and type(index) is int else None
