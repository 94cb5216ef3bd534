"""`SeveredGraph`: a graph without its collectives, which one rank can run again without the others.

What a collective returned becomes an input of the graph, and what it was given a result: both are known from the compiled call, in which
all ranks took part. So a fault before a collective is seen on the rank where it is, and one behind it is not laid to what came before.
"""

from __future__ import annotations

import itertools
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
_Behind = dict[fx.Node, frozenset[fx.Node]]
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
        is_same = is_same and shapes == [(value.shape, value.dtype)] and len(heard.results) == 1
        return is_same and _may_be_like(self.node, heard.results[0])


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
        self._behind = _behind(whole, self._collectives)
        self.module = _severed(whole, self._collectives)

    def apart(self, inputs: Sequence[Any], heard: Sequence[Heard]) -> tuple[list[Tensor], list[Tensor]]:
        """What each collective returned, and what each was given (see ``module``), as compiled code heard it. ``inputs``: before the call.

        Runs the graph once.

        Raises:
            Unmatched: compiled code made others, or it is not certain which is which.
        """
        if unknown := next((one.unknown for one in heard if one.unknown), ""):
            raise Unmatched(unknown)
        matching = _Matching(self._whole, self._collectives, self._behind, heard)
        matching.run(*snapshot.clone(list(inputs)))
        if left := matching.left():
            raise Unmatched(f"compiled code also makes {_named(left.kind, left.details)}, which eager does not")
        found = [(one, matching.found[one.node]) for one in self._collectives]
        results = _apart([taken.results[0] for _, taken in found])
        returned = [
            snapshot.returned(result, requires_grad=_requires_grad(one.node))
            for (one, _), result in zip(found, results, strict=True)
        ]
        return returned, _apart([taken.entered[0] for one, taken in found if one.is_given])


class _Matching(fx.Interpreter):
    """Runs a graph with what was heard in the place of its collectives.

    A collective is known by its kind, group, details, shape and dtype. Of several equal ones it is known by what it is given, and where
    compiled code makes as many as the graph, each dependent on the one before, by its place among them; the two must not contradict.
    """

    def __init__(
        self, whole: fx.GraphModule, collectives: Sequence[_Collective], behind: _Behind, heard: Sequence[Heard]
    ) -> None:
        super().__init__(whole)
        self.extra_traceback = False  # `Unmatched` is told to people
        self._collectives = {one.node: one for one in collectives}
        self._behind, self._heard = behind, heard
        self._given: dict[fx.Node, Tensor] = {}
        """What eager has given to the collectives that have their equals, so far."""
        self.found: dict[fx.Node, Heard] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n in self._collectives:
            collective = self._collectives[n]
            self.found[n] = self._taken(collective, self.env[collective.given].detach())
            return self.found[n].results[0].clone()
        return self.env[_operand(n)] if _is_wait(n) else super().run_node(n)

    def left(self) -> Heard | None:
        """The first one that was heard and not found in the graph; None if there is none."""
        found = set(self.found.values())
        return next((one for one in self._heard if one not in found), None)

    def _taken(self, collective: _Collective, value: Tensor) -> Heard:
        same = [one for one in self._heard if collective.is_one(one, value)]
        named = f"{_named(collective.kind, collective.details or '')} of {tuple(value.shape)}"
        if not same:
            raise Unmatched(f"eager makes {named}, which compiled code does not")
        like = [one for one in self._collectives.values() if one.is_like(collective) and _may_be_like(one.given, value)]
        if len(like) == len(same) == 1:
            return same[0]
        self._given[collective.node] = value.clone()
        by_place, by_value = self._by_place(collective, like, same), _nearest(same, value)
        taken = by_place or by_value
        if taken is None or (by_value is not None and not _is_equal(taken, by_value)):
            raise Unmatched(f"it makes several {named} that cannot be told apart")
        if free := [one for one in same if one not in self.found.values() and _is_equal(one, taken)]:
            return free[0]
        # Another one may have the same result only if it is given the same, to the bit.
        sharing = [self._given[node] for node, one in self.found.items() if one is taken]
        if not all(_is_same(given, value) for given in sharing):
            raise Unmatched(f"eager makes several {named}, of which compiled code makes fewer")
        return taken

    def _by_place(self, collective: _Collective, like: Sequence[_Collective], same: Sequence[Heard]) -> Heard | None:
        """The one at the same place among as many; None where the order may be another."""
        is_chain = all(after.node in self._behind[one.node] for one, after in itertools.pairwise(like))
        return same[like.index(collective)] if is_chain and len(like) == len(same) else None


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


def _may_be_like(node: fx.Node, value: Tensor) -> bool:
    """Whether a node may have a value of this shape and dtype: a size that is a symbol may be any."""
    example = _example(node)
    if not isinstance(example, Tensor):
        return True
    sizes = zip(example.shape, value.shape, strict=False)
    is_one = all(size == other for size, other in sizes if isinstance(size, int))
    return example.dtype == value.dtype and example.dim() == value.dim() and is_one


def _behind(whole: fx.GraphModule, collectives: Sequence[_Collective]) -> _Behind:
    """For each node the collectives that are computed from it, on any way."""
    nodes, found = {one.node for one in collectives}, _Behind()
    for node in reversed(whole.graph.nodes):
        found[node] = frozenset({*node.users} & nodes).union(*(found[user] for user in node.users))
    return found


def _nearest(same: Sequence[Heard], value: Tensor) -> Heard | None:
    """The one that was given this value to the bit, or so much nearer to it than all others that neither rounding nor a fault explains it.

    None if several may be meant.
    """
    kinds: list[Heard] = []
    for one in same:
        if not any(_is_equal(one, other) for other in kinds):
            kinds.append(one)
    if exact := [one for one in kinds if _is_same(one.entered[0], value)]:
        return exact[0] if len(exact) == 1 else None
    if len(kinds) == 1:
        return kinds[0]
    distances = {one: _distance(one.entered[0], value) for one in kinds}
    nearest, second, *_ = sorted(kinds, key=distances.__getitem__)
    apart = min(
        distances[second], *(_distance(one.entered[0], nearest.entered[0]) for one in kinds if one is not nearest)
    )
    are_known = all(map(math.isfinite, distances.values()))  # of an infinity or a NaN none is
    is_clear = are_known and distances[nearest] * CLEARLY <= apart and apart > _unsure(value)
    return nearest if is_clear else None


def _apart(values: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, with a copy of each that occurs again: what two collectives share must not look like an alias."""
    return [value.clone() if any(value is other for other in values[:at]) else value for at, value in enumerate(values)]


def _is_equal(one: Heard, other: Heard) -> bool:
    """Whether it does not matter which of two is taken."""
    pairs = ((one.entered, other.entered), (one.results, other.results))
    is_like = one.signature == other.signature and all(len(a) == len(b) for a, b in pairs)
    return one is other or (
        is_like and all(map(_is_same, (*one.entered, *one.results), (*other.entered, *other.results)))
    )


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal to the bit."""
    if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
        return False
    one, other = (each.contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
    return torch.equal(one, other)


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
    return _calls_operator(node) and is_collective(node.target) and _name(node)[1] == "wait_tensor"


def _calls_operator(node: fx.Node) -> bool:
    return isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))


def _name(node: fx.Node) -> tuple[str, str]:
    """Namespace and name of the operator that a node calls; of a function of Python, its name alone."""
    if not _calls_operator(node):
        return "", str(getattr(node.target, "__name__", type(node.target).__name__))
    namespace, _, name = str(node.target).partition(".")
    return namespace, name.partition(".")[0]


def _named(kind: str, details: str) -> str:
    return f"{kind}({details})" if details else kind
