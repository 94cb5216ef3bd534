"""Regions and windows: splits a graph by module paths, and cuts runs of nodes out as separate programs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, takewhile

from minimizer.engine.program.model import Input, Node, Program, related

SMALL = 8
"""Most nodes of a region that is not split further."""
CHUNKS = 8
"""Number of pieces of a region whose nodes share one module path."""


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


class Cutter:
    """Cuts windows out of one program, which is indexed once, so that the cost of a cut is proportional to its size."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._position = {node.name: index for index, node in enumerate(program.nodes)}
        self._given = {item.name: item for item in program.inputs}
        self._outputs = frozenset(program.outputs)
        self._users: dict[str, list[int]] = {}
        for index, node in enumerate(program.nodes):
            for name in dict.fromkeys(node.refs()):
                self._users.setdefault(name, []).append(index)
        self._state = _State(program.nodes)

    def cut(self, start: int, stop: int) -> Program:
        """The nodes ``start:stop`` as a separate program, on golden inputs.

        Values created earlier become inputs, as of just before the first node runs (with the effect of earlier in-place
        operators, without that of later ones). Producers of non-tensor values are included, and so are the nodes of
        autocast or grad-mode regions that are open at that point. Outputs are the values that the rest of the program
        uses.
        """
        program = self._program
        nodes = [program.nodes[index] for index in sorted(self._closed(start, stop))]
        made = {node.name for node in nodes}
        moment = program.nodes[start].name
        uses = Counter(name for node in nodes for name in dict.fromkeys(node.refs()))
        inputs = []
        for name in (name for name in uses if name not in made):
            source = self._given.get(name)
            if source is not None and source.golden is None:
                inputs.append(source)
            else:
                view = source.view if source is not None else None
                inputs.append(Input(name, meta=program.metas[name], golden=f"{name}@{moment}", view=view))
        outputs = tuple(
            node.name
            for node in nodes
            if (len(self._users.get(node.name, ())) > uses[node.name] and node.number is None)
            or node.name in self._outputs
            or (node.name not in uses and node.meta is not None)
        )
        return replace(program, inputs=related(inputs), nodes=tuple(nodes), outputs=outputs)

    def _closed(self, start: int, stop: int) -> set[int]:
        """Indices of the window's nodes, of the producers of values that are not tensors, and of open state regions."""
        nodes = self._program.nodes
        inside = set(range(start, stop)) | set(self._open_state(start, stop))
        pending = list(inside)
        while pending:
            for name in nodes[pending.pop()].refs():
                index = self._position.get(name)
                if index is not None and index not in inside and nodes[index].meta is None:
                    inside.add(index)
                    pending.append(index)
        return inside

    def _open_state(self, start: int, stop: int) -> Iterator[int]:
        """Indices of nodes that set the grad mode or autocast in force at ``start``, and of those that end these."""
        yield from self._state.grad_mode(start)
        for entered, left in self._state.autocast(start, stop):
            if left is None or left >= stop:
                users = self._users.get(self._program.nodes[entered].name, [])
                yield from (entered, *users[bisect_left(users, stop) :][:1])
            elif entered < start:
                yield entered


class _State:
    """The nodes of a program that set the grad mode, and those that enter and leave autocast."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._grad_modes = [i for i, node in enumerate(nodes) if node.target.endswith("_set_grad_enabled")]
        self._entered: list[int] = []
        self._left: dict[int, int] = {}
        open_: dict[str, int] = {}
        for index, node in enumerate(nodes):
            if node.target.endswith("_enter_autocast"):
                self._entered.append(index)
                open_[node.name] = index
            elif node.target.endswith("_exit_autocast"):
                names = [name for name in node.refs() if name in open_]
                if names:
                    self._left[open_.pop(min(names, key=open_.__getitem__))] = index
        ends = (self._left.get(entered, len(nodes)) for entered in self._entered)
        self._latest = list(accumulate(ends, max))
        """For each autocast region, the latest end among it and those before it."""

    def grad_mode(self, start: int) -> list[int]:
        """The index of the node that set the grad mode in force at ``start``, in a list; empty if none did."""
        return self._grad_modes[: bisect_left(self._grad_modes, start)][-1:]

    def autocast(self, start: int, stop: int) -> Iterator[tuple[int, int | None]]:
        """(entered, left) of each autocast region open somewhere in ``start:stop``; left is None if it never ends."""
        for place in reversed(range(bisect_left(self._entered, stop))):
            if self._latest[place] < start:
                return
            entered = self._entered[place]
            left = self._left.get(entered)
            if left is None or left >= start:
                yield entered, left


def cut(program: Program, start: int, stop: int) -> Program:
    """The window ``start:stop`` of a program; see `Cutter`."""
    return Cutter(program).cut(start, stop)


def split(nodes: Sequence[Node], start: int, stop: int) -> list[Region]:
    """Split a run of nodes into regions by module path; one with more than a quarter of the nodes is split again."""
    total = stop - start
    if total <= SMALL:
        return [Region(start, stop, *common_module(nodes[start:stop]))]
    paths = [node.module.split(".") for node in nodes[start:stop]]
    shared, deepest = len(_shared(paths)), max(map(len, paths))
    if shared == deepest:
        return _chunks(nodes, start, stop)
    regions: list[Region] = []
    position = start
    for _, group in groupby(paths, key=lambda path: path[shared : shared + 1]):
        length = len(list(group))
        regions.append(Region(position, position + length, *common_module(nodes[position : position + length])))
        position += length
    refined: list[Region] = []
    for region in regions:
        is_large = region.size > max(SMALL, total // 4) and shared + 1 < deepest
        refined += split(nodes, region.start, region.stop) if is_large else [region]
    return _merge_crumbs(nodes, refined)


def common_module(nodes: Sequence[Node]) -> tuple[str, str]:
    """Path and class of the innermost module that contains all these nodes; the class only if a node names it."""
    paths = [path.split(".") for path in {node.module for node in nodes}]
    prefix = ".".join(filter(None, _shared(paths)))
    classes = {node.module_class for node in nodes if node.module == prefix}
    return prefix, classes.pop() if len(classes) == 1 else ""


def _chunks(nodes: Sequence[Node], start: int, stop: int) -> list[Region]:
    step = max(SMALL, -(-(stop - start) // CHUNKS))
    return [
        Region(first, min(first + step, stop), *common_module(nodes[first : min(first + step, stop)]))
        for first in range(start, stop, step)
    ]


def _merge_crumbs(nodes: Sequence[Node], regions: list[Region]) -> list[Region]:
    """Merge regions of one or two nodes into a small neighbour: a residual addition is not worth its own trial."""
    merged: list[Region] = []
    for region in regions:
        last = merged[-1] if merged else None
        if last is not None and (region.size <= 2 and last.size <= SMALL):
            merged[-1] = Region(last.start, region.stop, *common_module(nodes[last.start : region.stop]))
        else:
            merged.append(region)
    return merged


def _shared(paths: Sequence[list[str]]) -> list[str]:
    """The common prefix of all these paths, which is that of the first and the last in sorted order."""
    first, last = min(paths, default=[]), max(paths, default=[])
    return [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))]
