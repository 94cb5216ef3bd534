"""`SeveredGraph`: a graph without its collectives, which one rank can run again without the others.

What a collective returned becomes an input of the graph, and what it was given a result: both are known from the compiled call, in which
all ranks took part. So a fault before a collective is seen on the rank where it is, and one behind it is not laid to what came before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..values import snapshot
from ..values.bodies import nodes_of
from ..values.communication import Heard
from .collectives import is_collective
from .graphs import copy_graph
from .literals import hint

KINDS = {
    "all_reduce": "all_reduce",
    "broadcast": "broadcast",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
"""The collectives that can be cut out, all without a side effect, and what `communication` calls them."""
CLEARLY = 10
"""How many times farther than the nearest collective the next one has to be, to be another one."""
_Pair = tuple[Tensor, Tensor]
_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd")


class Unmatched(Exception):
    """Compiled code does not make the collectives that eager makes."""


class Unseverable(Exception):
    """A graph communicates in a way that cannot be cut out."""


@dataclass(frozen=True)
class _Collective:
    """A collective of a graph. ``is_given``: what this rank gives counts (in a broadcast only the root's does)."""

    node: fx.Node
    kind: str
    group: str
    details: str | None
    is_given: bool

    @property
    def given(self) -> fx.Node:
        return _operand(self.node)

    def is_like(self, other: _Collective) -> bool:
        """Whether one may be taken for the other, by all but its values."""
        return (self.kind, self.group, self.details) == (other.kind, other.group, other.details)

    def is_one(self, heard: Heard, value: Tensor) -> bool:
        """Whether what was heard is this collective, given a tensor like this one."""
        shapes = [(one.shape, one.dtype) for one in heard.entered]
        is_same = (heard.kind, heard.group) == (self.kind, self.group) and self.details in (None, heard.details)
        return is_same and shapes == [(value.shape, value.dtype)]


class SeveredGraph:
    """A graph without its collectives.

    ``module`` takes the inputs of the graph, then what each collective returned; it returns the results of the graph, then what each
    collective is given, but for those in which that does not count.
    """

    def __init__(self, whole: fx.GraphModule) -> None:
        """
        Raises:
            Unseverable: a collective cannot be cut out.
        """
        self._whole = whole
        self._collectives = [_collective(node) for node in _collectives(whole)]
        self.module = _severed(whole, self._collectives)

    @property
    def made_up(self) -> list[Any]:
        """Inputs in the place of what collectives return, of its shape and dtype: a run with them shows which operators run, and no values."""
        return [_like(_example(one.node)) for one in self._collectives]

    def apart(self, inputs: Sequence[Any], heard: Sequence[Heard]) -> tuple[list[Tensor], list[Tensor]]:
        """What each collective returned, and what each was given (see ``module``), as compiled code heard it. ``inputs``: before the call.

        Runs the graph once. Of equal collectives, which a compiler may reorder, each is told by what it depends on, or by its values.

        Raises:
            Unmatched: compiled code made others, or it is not known which is which.
        """
        if unknown := next((one.unknown for one in heard if one.unknown), ""):
            raise Unmatched(unknown)
        matching = _Matching(self._whole, self._collectives, heard)
        matching.run(*snapshot.clone(list(inputs)))
        if left := matching.left:
            raise Unmatched(f"compiled code also makes {_named(left[0].kind, left[0].details)}, which eager does not")
        found = [(collective, *matching.found[collective.node]) for collective in self._collectives]
        returned = [snapshot.returned(result, requires_grad=_requires_grad(one.node)) for one, _, result in found]
        return returned, [entered.clone() for one, entered, _ in found if one.is_given]


class _Matching(fx.Interpreter):
    """Runs a graph with what was heard in the place of its collectives."""

    def __init__(self, whole: fx.GraphModule, collectives: Sequence[_Collective], heard: Sequence[Heard]) -> None:
        super().__init__(whole)
        self.extra_traceback = False  # `Unmatched` is told to people
        self._collectives = {one.node: one for one in collectives}
        self._behind = _behind(whole)
        self.left, self._heard = list(heard), heard
        """``left``: what was heard and not found in the graph, in the order in which it was heard."""
        self.found: dict[fx.Node, _Pair] = {}
        """What each collective was given, and what it returned."""

    def run_node(self, n: fx.Node) -> Any:
        if n in self._collectives:
            collective = self._collectives[n]
            self.found[n] = self._taken(collective, self.env[collective.given].detach())
            return self.found[n][1].clone()
        return self.env[_operand(n)] if _is_wait(n) else super().run_node(n)

    def _taken(self, collective: _Collective, value: Tensor) -> _Pair:
        same = [one for one in self.left if collective.is_one(one, value)]
        if same:
            others = [
                one for one in self._collectives.values() if one.node not in self.found and one.is_like(collective)
            ]
            is_first = all(one is collective or one.node in self._behind[collective.node] for one in others)
            taken = same[0] if len(same) == 1 or is_first else _nearest(same, value, collective)
            self.left.remove(taken)
            return taken.entered[0], taken.results[0]
        for one in self._heard:  # two of the same operands are one
            if collective.is_one(one, value) and torch.equal(one.entered[0], value):
                return one.entered[0], one.results[0]
        named = _named(collective.kind, collective.details or "")
        raise Unmatched(f"eager makes {named} of {tuple(value.shape)}, which compiled code does not")


def _collectives(whole: fx.GraphModule) -> list[fx.Node]:
    """
    Raises:
        Unseverable: one is hidden.
    """
    own = set(whole.graph.nodes)
    found = [node for node in nodes_of(whole) if node.op == "call_function" and is_collective(node.target)]
    if any(node not in own for node in found):
        raise Unseverable("a collective is in the body of another operator")
    return [node for node in found if not _is_wait(node)]


def _collective(node: fx.Node) -> _Collective:
    namespace, name = _name(node)
    if namespace not in _NAMESPACES or name not in KINDS:
        raise Unseverable(f"{name} cannot be taken out of it")
    assert isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
    overload = node.target if isinstance(node.target, torch._ops.OpOverload) else node.target.default
    names = [argument.name for argument in overload._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    group: Any = given["group_name"]
    details: str | None = ""
    if "reduce_op" in given:
        details = str(given["reduce_op"]).lower()
    elif name == "all_to_all_single":
        details = None  # sizes of parts may be symbols: the shape of what is returned follows from them
    is_given = True
    if name == "broadcast":
        from torch._C._distributed_c10d import _resolve_process_group

        details = str(given["src"])
        is_given = _resolve_process_group(group).rank() == given["src"]
    return _Collective(node, KINDS[name], str(getattr(group, "group_name", group)), details, is_given)


def _severed(whole: fx.GraphModule, collectives: Sequence[_Collective]) -> fx.GraphModule:
    graph = copy_graph(whole.graph)
    copies = dict(zip(whole.graph.nodes, list(graph.nodes), strict=True))
    given = []
    for number, one in enumerate(collectives):
        node, last = copies[one.node], graph.find_nodes(op="placeholder")
        with graph.inserting_after(last[-1]) if last else graph.inserting_before(next(iter(graph.nodes))):
            returned = graph.placeholder(f"from_{one.kind}_{number}")
        returned.meta = {"example_value": _example(node)}
        with graph.inserting_before(node):
            if one.is_given:
                # Copies, so that neither is an alias of anything else.
                detached = graph.call_method("detach", (_operand(node),))
                contiguous: dict[str, Any] = {"memory_format": torch.contiguous_format}
                given.append(graph.call_function(torch.clone, (detached,), contiguous))
                for made in (detached, given[-1]):
                    made.meta = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta}
            copied = graph.call_function(torch.clone, (returned,))
        copied.meta = dict(node.meta)
        node.replace_all_uses_with(copied)
        graph.erase_node(node)
    for node in list(graph.nodes):
        if _is_wait(node):
            node.replace_all_uses_with(_operand(node))
            graph.erase_node(node)
    output = graph.output_node()
    (results,) = output.args
    assert isinstance(results, (tuple, list))
    output.args = ((*results, *given),)
    return fx.GraphModule(whole, graph)


def _requires_grad(node: fx.Node) -> bool:
    return bool(getattr(_example(node), "requires_grad", False))


def _example(node: fx.Node) -> Any:
    """The value that a node had when the graph was made, of Dynamo or of a tracer."""
    return node.meta.get("example_value", node.meta.get("val"))


def _like(example: Tensor) -> Tensor:
    shape = [hint(size) for size in example.shape]
    return snapshot.returned(
        torch.zeros(shape, dtype=example.dtype, device=example.device), requires_grad=example.requires_grad
    )


def _behind(whole: fx.GraphModule) -> dict[fx.Node, set[fx.Node]]:
    """For each node those that are computed from it, on any way."""
    found: dict[fx.Node, set[fx.Node]] = {}
    for node in reversed(whole.graph.nodes):
        found[node] = {*node.users}.union(*(found[user] for user in node.users))
    return found


def _nearest(same: Sequence[Heard], value: Tensor, collective: _Collective) -> Heard:
    """The one that was given a value like this one.

    Raises:
        Unmatched: another may be meant: what they were given is not so different that rounding, or a fault, cannot explain it.
    """
    if all(_is_equal(one, same[0]) for one in same):
        return same[0]
    distances = {one: _distance(one.entered[0], value) for one in same}
    nearest, second, *_ = sorted(same, key=distances.__getitem__)
    apart = min(distances[second], _distance(second.entered[0], nearest.entered[0]))
    are_known = all(map(math.isfinite, distances.values()))  # of an infinity or a NaN none is
    if not (are_known and distances[nearest] * CLEARLY <= apart and apart > _unsure(value)):
        named = _named(collective.kind, collective.details or "")
        raise Unmatched(f"it makes several {named} of {tuple(value.shape)} that cannot be told apart")
    return nearest


def _is_equal(one: Heard, other: Heard) -> bool:
    pairs = ((one.entered[0], other.entered[0]), (one.results[0], other.results[0]))
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def _distance(one: Tensor, other: Tensor) -> float:
    return float((_exact(one) - _exact(other)).abs().sum())


def _unsure(value: Tensor) -> float:
    """A distance from a value that no rounding explains."""
    digits = torch.finfo(value.dtype).eps ** 0.5 if value.is_floating_point() or value.is_complex() else 0.0
    return digits * float(_exact(value).abs().sum())


def _exact(value: Tensor) -> Tensor:
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def _operand(node: fx.Node) -> fx.Node:
    """What a collective is given, or what is waited for."""
    operand = node.args[0] if node.args else next(iter(node.kwargs.values()))
    assert isinstance(operand, fx.Node)
    return operand


def _is_wait(node: fx.Node) -> bool:
    return node.op == "call_function" and is_collective(node.target) and _name(node)[1] == "wait_tensor"


def _name(node: fx.Node) -> tuple[str, str]:
    """Namespace and name of the operator that a node calls."""
    namespace, _, name = str(node.target).partition(".")
    return namespace, name.partition(".")[0]


def _named(kind: str, details: str) -> str:
    return f"{kind}({details})" if details else kind
