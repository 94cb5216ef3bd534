"""Parts of a graph: which nodes belong together, and what of the rest a run of nodes needs to be a program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from minimizer.engine.program.model import Input, Node, Program

SMALL = 8
"""Regions of at most this many nodes are not split further."""
CHUNKS = 8
"""Into how many pieces a region without modules is cut."""


@dataclass(frozen=True)
class Region:
    """A run of nodes of a program, ``nodes[start:stop]``, under one module path."""

    start: int
    stop: int
    path: str = ""
    module_class: str = ""

    @property
    def size(self) -> int:
        return self.stop - self.start


def cut(program: Program, start: int, stop: int) -> Program:
    """The nodes ``start:stop`` as a program of their own, on golden inputs.

    Values made earlier become inputs, as they are just before the first node runs (so that an earlier in-place operator is in
    them, and a later one is not); producers of values that are no tensors, and autocast or grad-mode regions that are open at
    that point, come along. Outputs are the values that the rest of the program uses.
    """
    inside = _closed(program, start, stop)
    nodes = [program.nodes[index] for index in sorted(inside)]
    made = {node.name for node in nodes}
    moment = program.nodes[start].name
    metas = program.metas()
    given = {i.name: i for i in program.inputs}
    needed = dict.fromkeys(name for node in nodes for name in node.refs() if name not in made)
    inputs = []
    for name in needed:
        source = given.get(name)
        if source is not None and source.golden is None:
            inputs.append(source)
        else:
            inputs.append(Input(name, meta=metas[name], golden=f"{name}@{moment}"))
    used_later = {name for index, node in enumerate(program.nodes) if index not in inside for name in node.refs()}
    used_inside = {name for node in nodes for name in node.refs()}
    outputs = tuple(
        node.name
        for node in nodes
        if (node.name in used_later and node.number is None)
        or node.name in program.outputs
        or (node.name not in used_inside and _has_value(node))
    )
    return replace(program, inputs=tuple(inputs), nodes=tuple(nodes), outputs=outputs)


def split(nodes: Sequence[Node], start: int, stop: int, depth: int = 1) -> list[Region]:
    """Cut a run of nodes into regions by module path, deeper where a region holds most of the nodes."""
    total = stop - start
    if total <= SMALL:
        return [Region(start, stop, *common_module(nodes[start:stop]))]
    regions: list[Region] = []
    position = start
    for _, group in groupby(nodes[start:stop], key=lambda node: node.module.split(".")[:depth]):
        length = len(list(group))
        regions.append(Region(position, position + length, *common_module(nodes[position : position + length])))
        position += length
    deepest = max(len(node.module.split(".")) for node in nodes[start:stop])
    if len(regions) == 1:
        return split(nodes, start, stop, depth + 1) if depth < deepest else _chunks(nodes, start, stop)
    refined: list[Region] = []
    for region in regions:
        is_large = region.size > max(SMALL, total // 4)
        refined += split(nodes, region.start, region.stop, depth + 1) if is_large and depth < deepest else [region]
    return _merge_crumbs(nodes, refined)


def common_module(nodes: Sequence[Node]) -> tuple[str, str]:
    """The path of the innermost module that all these nodes come from, and its class if it is that of one of them."""
    paths = [node.module for node in nodes]
    prefix = ".".join(_common_prefix(sorted(set(paths))))
    classes = {node.module_class for node in nodes if node.module == prefix}
    return prefix, classes.pop() if len(classes) == 1 else ""


def depth(program: Program, region: Region) -> int:
    """How deep in the module tree the nodes of a region part: the argument of `split` that divides them."""
    paths = {node.module for node in program.nodes[region.start : region.stop]}
    common = _common_prefix(sorted(paths))
    return len(common) + 1


def _chunks(nodes: Sequence[Node], start: int, stop: int) -> list[Region]:
    step = max(SMALL, -(-(stop - start) // CHUNKS))
    return [
        Region(first, min(first + step, stop), *common_module(nodes[first : min(first + step, stop)]))
        for first in range(start, stop, step)
    ]


def _merge_crumbs(nodes: Sequence[Node], regions: list[Region]) -> list[Region]:
    """Join neighbours of one or two nodes each: a residual addition is not worth a trial of its own."""
    merged: list[Region] = []
    for region in regions:
        last = merged[-1] if merged else None
        if last is not None and (region.size <= 2 and last.size <= SMALL):
            merged[-1] = Region(last.start, region.stop, *common_module(nodes[last.start : region.stop]))
        else:
            merged.append(region)
    return merged


def _closed(program: Program, start: int, stop: int) -> set[int]:
    """The window plus what it cannot do without: producers of values that are no tensors, and open state regions."""
    position = {node.name: index for index, node in enumerate(program.nodes)}
    inside = set(range(start, stop)) | set(_open_state(program, start, stop))
    pending = list(inside)
    while pending:
        for name in program.nodes[pending.pop()].refs():
            index = position.get(name)
            if index is not None and index not in inside and program.nodes[index].meta is None:
                inside.add(index)
                pending.append(index)
    return inside


def _open_state(program: Program, start: int, stop: int) -> list[int]:
    """Indices of the nodes that set the grad mode or autocast in force at ``start``, and of those that end what began inside."""
    needed: list[int] = []
    open_regions: list[int] = []
    for index, node in enumerate(program.nodes[:stop]):
        if node.target.endswith("_set_grad_enabled") and index < start:
            needed[:] = [i for i in needed if not program.nodes[i].target.endswith("_set_grad_enabled")]
            needed.append(index)
        elif node.target.endswith("_enter_autocast"):
            open_regions.append(index)
        elif node.target.endswith("_exit_autocast"):
            entered = next((i for i in open_regions if program.nodes[i].name in node.refs()), None)
            if entered is not None:
                open_regions.remove(entered)
                if entered < start <= index:
                    needed += [entered]
    for entered in open_regions:
        name = program.nodes[entered].name
        exits = [i for i, node in enumerate(program.nodes) if i >= stop and name in node.refs()]
        needed += [entered, *exits[:1]]
    return needed


def _has_value(node: Node) -> bool:
    return node.meta is not None


def _common_prefix(paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    first, last = paths[0].split("."), paths[-1].split(".")
    common = []
    for a, b in zip(first, last, strict=False):
        if a != b:
            break
        common.append(a)
    return [part for part in common if part]
