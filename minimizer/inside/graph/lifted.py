"""`LiftedGraph`: a captured graph that can be rerun without side effects on the tensors that it holds as attributes.

Dynamo installs a tensor whose address it guards as an attribute of the graph, such as the parameters and state of a
compiled optimizer step. A copy of the graph would share them, so that a rerun would train one more step. Here they
become extra inputs. Compiled code cannot take other tensors, so for a rerun the values are written into its own tensors
and restored afterwards.

Under ``torch._inductor.config.freezing`` and ``no_grad`` they are the parameters and buffers that Inductor takes for constants. The node of
such an input says so (`FROZEN`), since a program in which it is an ordinary argument is compiled in another way.

Compiled autograd passes its tensors in one list, which the compiled code empties. Here they become single inputs, like those of any
other graph, and each call of compiled code gets a new list.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch._inductor.config
from torch import Tensor, fx
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ..referee.call import Call, Function, Side, Unplayable
from ..values import snapshot
from ..values.device import settle
from .graphs import FROZEN, copy_graph


class LiftedGraph:
    """A copy of a graph whose attribute ``tensors`` are its last inputs, and whose list inputs are spread into single ones."""

    def __init__(self, module: fx.GraphModule) -> None:
        graph = copy_graph(module.graph)
        self._lengths = _spread(graph)
        _convert_as_aten_does(graph)
        self.tensors = _lift(graph, module)
        self.module = fx.GraphModule(module, graph)

    @property
    def is_backward(self) -> bool:
        """Whether this is a graph of compiled autograd: only those take a list."""
        return any(length is not None for length in self._lengths)

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """All inputs of ``module`` for a call with these arguments. Call it first: the call itself may empty its lists."""
        spread = [[arg] if length is None else arg for arg, length in zip(args, self._lengths, strict=True)]
        return [*itertools.chain(*spread), *self.tensors]

    def arguments(self, inputs: Sequence[Any]) -> list[Any]:
        """The inverse of `inputs`: the arguments of compiled code, with new lists each time."""
        left = iter(inputs)
        return [next(left) if length is None else list(itertools.islice(left, length)) for length in self._lengths]

    def eager(self, *args: Any) -> Any:
        """Run the graph in eager on its own attribute tensors, not on copies."""
        return self.module(*self.inputs(args))

    @contextlib.contextmanager
    def standing_in(self, inputs: list[Any]) -> Iterator[list[Any]]:
        """Write the last of ``inputs`` into the graph's own tensors for the body; yields the inputs with those tensors in their place.

        Raises:
            Unplayable: the tensors cannot hold these values, or share memory with an argument.
        """
        if not self.tensors:
            yield inputs
            return
        args = inputs[: len(inputs) - len(self.tensors)]
        self._check(inputs)
        kept = snapshot.clone([tensor.detach() for tensor in self.tensors])  # without their gradients
        # Autograd may have saved one of them for a backward, and must not see this as an in-place change.
        counted = tuple(tensor for tensor in self.tensors if not tensor.is_inference())
        with _unsafe_preserve_version_counter(counted):
            try:
                _put(self.tensors, inputs[len(args) :])
                yield [*args, *self.tensors]
            finally:
                _put(self.tensors, kept)

    def run(self, call: Call, compiled: Function) -> Side:
        """Rerun a call of ``module`` with compiled code; its side.

        Raises:
            Unplayable: see `standing_in`.
        """
        with self.standing_in(list(snapshot.clone(call.inputs))) as values, call.started():
            side = call.on(lambda *inputs: compiled(*self.arguments(inputs)), values)
            settle()
            # Copied before the tensors are restored, and together: a result may be one of them, or a view of it.
            return Side(*snapshot.clone(tuple(side))) if self.tensors else side

    def _check(self, inputs: list[Any]) -> None:
        own = inputs[len(inputs) - len(self.tensors) :]
        if any(not tensor.is_leaf or not snapshot.has_plain_storage(tensor) for tensor in self.tensors):
            raise Unplayable("a tensor that the graph holds cannot stand in for its copy")
        if any(_size(one) != _size(other) for one, other in zip(self.tensors, own, strict=True)):
            raise Unplayable("a tensor that the graph holds has been resized")
        storages = {tensor.untyped_storage()._cdata for tensor in own}
        args = inputs[: len(inputs) - len(self.tensors)]
        tensors = [arg for arg in args if isinstance(arg, Tensor) and snapshot.has_plain_storage(arg)]
        if any(tensor.untyped_storage()._cdata in storages for tensor in tensors):
            raise Unplayable("an argument shares its memory with a tensor that the graph holds")


def _spread(graph: fx.Graph) -> list[int | None]:
    """Replace every list placeholder by one placeholder per element.

    Returns the list's length for each input, None if no list.
    """
    lengths: list[int | None] = []
    for place in graph.find_nodes(op="placeholder"):
        example = place.meta.get("example_value")
        lengths.append(len(example) if isinstance(example, list) else None)
        if isinstance(example, list):
            _spread_one(graph, place, len(example))
    return lengths


def _spread_one(graph: fx.Graph, place: fx.Node, length: int) -> None:
    with graph.inserting_before(place):
        elements = [graph.placeholder(f"{place.name}_{index}") for index in range(length)]
    for user in list(place.users):
        if user.target is operator.getitem and isinstance(user.args[1], int):
            element = elements[user.args[1]]
            user.replace_all_uses_with(element)
            element.meta = dict(user.meta)
            graph.erase_node(user)
        else:
            user.args = fx.map_arg(user.args, lambda node: elements if node is place else node)
            user.kwargs = fx.map_arg(user.kwargs, lambda node: elements if node is place else node)
    graph.erase_node(place)


def _convert_as_aten_does(graph: fx.Graph) -> None:
    """Replace conversions that in eager require gradients whenever their operand does, even with grad mode off.

    They come from graphs that were already lowered, which only compiled autograd contains.
    """
    for node in graph.find_nodes(op="call_function", target=torch.ops.prims.convert_element_type.default):
        if len(node.args) == 2:
            operand, dtype = node.args
            node.target, node.args, node.kwargs = torch.ops.aten._to_copy.default, (operand,), {"dtype": dtype}


def _lift(graph: fx.Graph, module: fx.GraphModule) -> list[Tensor]:
    """Replace ``get_attr`` nodes of tensors by placeholders after the existing ones, one per tensor.

    Returns the tensors.
    """
    found: dict[int, tuple[fx.Node, Tensor]] = {}
    for node in list(graph.find_nodes(op="get_attr")):
        value = operator.attrgetter(str(node.target))(module)
        if not isinstance(value, Tensor):
            continue
        is_new, name = id(value) not in found, node.name
        if is_new:
            places = graph.find_nodes(op="placeholder")
            with graph.inserting_after(places[-1]) if places else graph.inserting_before(None):
                found[id(value)] = graph.create_node("placeholder", name), value
        placeholder = found[id(value)][0]
        node.replace_all_uses_with(placeholder)
        graph.erase_node(node)
        if is_new:
            placeholder.name, placeholder.meta = name, {**node.meta, FROZEN: freezes()}
    return [value for _, value in found.values()]


def freezes() -> bool:
    """Whether Inductor takes what a graph holds for constants."""
    return bool(torch._inductor.config.freezing) and not torch.is_grad_enabled()


def _put(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors by whole storages: bytes, whatever the strides, invisible to autograd."""
    for tensor, value in zip(tensors, values, strict=True):
        tensor.untyped_storage().copy_(value.untyped_storage())


def _size(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes()
