"""Gradients that the script's own backward got from a compiled call.

A replay computes a backward once more, on state left by the first one: it does not show an overwritten buffer, or a
kernel that returns leftovers of the previous backward. AOTAutograd's node reports what it returned, and to which edges.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from ..referee.call import Side
from ..referee.distance import other_zeros
from ..values.boundary import places
from ..values.capturing import is_of_cuda_graphs
from ..values.rounding import tensors
from ..values.snapshot import has_plain_storage, kept

COMPILED = "CompiledFunctionBackward"
"""Name of the autograd node of a graph that AOTAutograd compiled with its backward."""

Gradients = list[Tensor | None]


def edges_of(inputs: Sequence[Any]) -> list[GradientEdge]:
    """The destinations of the gradients of a call's inputs, in the order of a `GradientCall`'s.

    Call it before the call, which may change an input in place. Empty if autograd does not report them.
    """
    with contextlib.suppress(Exception):
        return [get_gradient_edge(leaf) for leaf in places(list(inputs)).values() if leaf.requires_grad]
    return []


class Unchanged:
    """The inputs that a call left unchanged, with copies: a script may write into them before its backward, unseen by
    autograd.
    """

    def __init__(self, now: Sequence[Any], before: Sequence[Any]) -> None:
        pairs = zip(tensors(list(now)), tensors(list(before)), strict=True)
        self._pairs = [(weakref.ref(one), was) for one, was in pairs if _is_same(one.detach(), was.detach())]

    def holds(self) -> bool:
        """Whether those still alive are unchanged."""
        return all(
            (one := reference()) is None or _is_same(one.detach(), was.detach()) for reference, was in self._pairs
        )


class OwnGradients:
    """The gradients that the node of a compiled call returned to the script's backward.

    Unknown (`known` is None) for a call whose outputs do not all come from one node of AOTAutograd, and if the script's
    backward is not the replayed one: a hook of the script changed its cotangents, there were several backwards from
    different outputs, the script wrote into an input meanwhile (``parameter.data.mul_``), or it stores saved tensors in
    its own way (``saved_tensors_hooks``).
    """

    def __init__(
        self,
        actual: Any,
        edges: Sequence[GradientEdge],
        seen: Mapping[int, Tensor],
        now: Sequence[Any],
        before: Sequence[Any],
    ) -> None:
        """``actual``: results of the call. ``edges``: see `edges_of`. ``seen``: cotangents of its differentiable
        outputs, as they arrive.

        ``now``, ``before``: its inputs after the call, and a copy of them from before it.
        """
        self.known: Gradients | None = None
        self.is_in_held, self.is_behind_change = False, False
        """Whether it returned a gradient in the memory of a leaf's gradient, and whether an input had changed since the
        call.
        """
        self._seen = seen
        outputs = [output for output in tensors(actual) if output.requires_grad]
        nodes = {output.grad_fn for output in outputs}
        node = nodes.pop() if len(nodes) == 1 else None
        if node is None or node.name() != COMPILED or not edges:
            return
        self._numbers = [output.output_nr for output in outputs]
        along = [_along(node, edge) for edge in edges]
        self._returned = [found[0] for found in along if len(found) == 1]
        if len(self._returned) < len(edges):
            return
        with contextlib.suppress(Exception):  # inputs that cannot be compared
            if torch._C._autograd._top_saved_tensors_default_hooks(False) is None:
                self._inputs = Unchanged(now, before)
                leaves = (getattr(to, "variable", None) for to, _ in node.next_functions)
                self._leaves = [weakref.ref(leaf) for leaf in leaves if leaf is not None]
                node.register_hook(self._hook())

    def _hook(self) -> Callable[[Sequence[Tensor | None], Sequence[Tensor | None]], None]:
        own = weakref.ref(self)  # the node must not keep the call alive

        def returned(gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> None:
            if not torch.compiler.is_compiling() and (here := own()) is not None:
                here._come(gradients, cotangents)

        return returned

    def _come(self, gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> None:
        self.known = None
        with contextlib.suppress(Exception):  # would otherwise be raised in the script's backward
            held = [leaf.grad for reference in self._leaves if (leaf := reference()) is not None]
            self.is_in_held = self.is_in_held or _share_memory(held, _made(gradients, cotangents))
            holds = self._inputs.holds()
            self.is_behind_change = self.is_behind_change or not holds
            is_as_seen = all(_is_same(self._seen.get(index), cotangents[at]) for index, at in enumerate(self._numbers))
            if is_as_seen and holds:
                returned = [gradients[at] for at in self._returned]
                self.known = [None if one is None else _copied(one.detach()) for one in returned]

    def in_place_of(self, replayed: Side) -> Side:
        """The side of a replay, with gradients that are equal to the script's own in the memory of these, which is in a file if they are large."""
        known = self.known if self.known is not None else [None] * len(replayed.gradients)
        pairs = zip(known, replayed.gradients, strict=True)
        return replayed._replace(gradients=[own if _is_interchangeable(own, one) else kept(one) for own, one in pairs])


def differ(own: Gradients, replayed: Sequence[Tensor | None]) -> bool:
    """Whether gradients of equal layout and dtype differ in a bit; others cannot be compared with a replay's."""
    pairs = list(zip(own, replayed, strict=True))
    if any((one is None) is not (other is None) for one, other in pairs):
        return False
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    if any(one.shape != other.shape or one.dtype != other.dtype for one, other in both):
        return False
    return not all(_is_same(one, other) for one, other in both)


def _made(gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients that are not passed-through cotangents, which the backward has not written."""
    passed = _by_memory(cotangents)
    return [one for place, one in _by_memory(gradients).items() if place not in passed]


def _share_memory(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> bool:
    """Whether a tensor of one list shares memory with one of the other, except CUDA graph memory, which is reused."""
    one, other = _by_memory(some), _by_memory(others)
    return any(not is_of_cuda_graphs(other[place]) for place in one.keys() & other.keys())


def _by_memory(values: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """The tensors by the addresses of their storages."""
    plain = [value for value in values if value is not None and has_plain_storage(value)]
    return {place: value for value in plain if (place := value.untyped_storage().data_ptr())}


def _along(node: Node, edge: GradientEdge) -> list[int]:
    """The indices of a node's gradients that follow an edge."""
    return [at for at, (to, number) in enumerate(node.next_functions) if to is edge.node and number == edge.output_nr]


def _copied(gradient: Tensor) -> Tensor:
    """A copy of a gradient, in a file if it is large."""
    copy = kept(gradient)
    return gradient.clone() if copy is None or copy is gradient else copy


def _is_interchangeable(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two gradients have the same bits, dtype and layout."""
    if one is None or other is None or type(one) is not type(other) or one.dtype != other.dtype:
        return False
    if not (has_plain_storage(one) and has_plain_storage(other)) or one.stride() != other.stride():
        return False
    return one.requires_grad == other.requires_grad and torch.equal(one, other) and not other_zeros(one, other)


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether both are missing, or equal to the bit except for the NaN payload."""
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(torch.isclose(one, other, rtol=0, atol=0, equal_nan=True).all())
