"""`LocalGraphs`: a graph of distributed tensors as one rank computes it, on the parts that it holds.

Its operators are those that the distributed tensors' own code calls on the parts, collectives among them. Gradients are not part of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..values import communication, snapshot
from ..values.rounding import tensors
from .severed import SeveredGraph, Unseverable

MOST = 8
"""Most local graphs that are kept of one graph; a trace costs as much as several calls."""


class LocalGraphs:
    """The local graphs of a graph of distributed tensors, one for each set of sizes, meshes and placements that it is called with."""

    def __init__(self, whole: fx.GraphModule) -> None:
        self._whole = whole
        self._made: dict[Any, tuple[SeveredGraph, list[Any]]] = {}
        """The local graphs, each with what its key knows by `id`: another object may have that of one that is gone."""

    def severed(self, inputs: Sequence[Any]) -> SeveredGraph:
        """The local graph for these inputs, without its collectives; it takes the `parts` of the inputs, and returns those of the results.

        Raises:
            Unseverable: a collective cannot be cut out, or the code of a tensor subclass raises.
        """
        key = tuple(_kind(value) for value in inputs)
        try:
            if key in self._made:
                return self._made[key][0]
            made = SeveredGraph(self._traced(inputs))
        except Unseverable:
            raise
        except Exception as error:
            raise Unseverable(f"tracing it raised {type(error).__name__}: {error}") from error
        self._made[key] = made, [value for value in inputs if not isinstance(value, Tensor)]
        for oldest in list(self._made)[:-MOST]:
            del self._made[oldest]
        return made

    def _traced(self, inputs: Sequence[Any]) -> fx.GraphModule:
        def run(*given: Tensor) -> list[Tensor]:
            left = iter(given)
            values = [_rebuilt(value, next(left)) if isinstance(value, Tensor) else value for value in inputs]
            return parts(tensors(fx.Interpreter(self._whole).run(*values)))

        rng = snapshot.rng_state()
        with contextlib.ExitStack() as stack:
            stack.callback(snapshot.set_rng_state, rng)
            stack.enter_context(communication.refusing_collectives())
            stack.enter_context(
                snapshot.global_state().applied()
            )  # a graph may change the switches, and they must be restored
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch._guards.tracing(None))  # or sizes become symbols of the script's own compilation
            stack.enter_context(fx.traceback.preserve_node_meta())
            traced: fx.GraphModule = make_fx(run, tracing_mode="fake")(*snapshot.clone(parts(inputs)))
        if any(_draws_for_all_ranks(node) for node in traced.graph.nodes):
            raise Unseverable("it draws random numbers for distributed tensors")
        places = [
            place
            for place, value in zip(self._whole.graph.find_nodes(op="placeholder"), inputs, strict=True)
            if isinstance(value, Tensor)
        ]
        for node, place in zip(traced.graph.find_nodes(op="placeholder"), places, strict=True):
            # Where a value comes from, not the value: that is of all ranks.
            node.meta |= {key: place.meta[key] for key in place.meta if key != "example_value"}
            node.name = place.name
        traced.recompile()
        return traced


def parts(values: Sequence[Any]) -> list[Tensor]:
    """The tensors among the values, and of distributed ones what this rank holds; without gradients."""
    return [_part(value) for value in values if isinstance(value, Tensor)]


def _part(value: Tensor) -> Tensor:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    if isinstance(value, AsyncCollectiveTensor):
        if not value.completed:  # to wait for it before the script does could be to wait for ever
            raise Unseverable("it takes or returns what a collective has not yet written")
        return _part(value.elem)
    if not is_traceable_wrapper_subclass(value) or isinstance(value, torch._subclasses.FakeTensor):
        return value.detach()
    inner = [held for name in value.__tensor_flatten__()[0] if isinstance(held := getattr(value, name), Tensor)]
    if len(inner) != 1:
        raise Unseverable(f"it takes a {type(value).__name__} of several tensors")
    return _part(inner[0])


def _draws_for_all_ranks(node: fx.Node) -> bool:
    """Whether a node draws random numbers by the state that distributed tensors keep of a GPU's generator; on the CPU they keep none."""
    value = node.meta.get("val")
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return is_random and not (isinstance(value, Tensor) and value.device.type == "cpu")


def _rebuilt(value: Tensor, part: Tensor) -> Tensor:
    """A tensor like ``value`` of which this rank holds ``part``."""
    if not is_traceable_wrapper_subclass(value):
        return part
    names, context = value.__tensor_flatten__()
    held = {name: getattr(value, name) for name in names}
    inner = {name: _rebuilt(one, part) if isinstance(one, Tensor) else one for name, one in held.items()}
    return type(value).__tensor_unflatten__(inner, context, value.size(), value.stride())


def _kind(value: Any) -> Any:
    """What has to be equal for two inputs to have the same local graph."""
    if isinstance(value, Tensor):
        part = _part(value)
        return *_subclasses(value), part.shape, part.stride(), part.dtype, part.device
    return repr(value) if isinstance(value, (bool, int, float)) else id(value)


def _subclasses(value: Tensor) -> list[Any]:
    """The type and shape of a tensor and of each that it wraps, and what they hold beside these, such as mesh and placements."""
    if not is_traceable_wrapper_subclass(value):
        return [type(value), value.shape]
    names, context = value.__tensor_flatten__()
    inner = [held for name in names if isinstance(held := getattr(value, name), Tensor)]
    return [type(value), value.shape, value.stride(), context, *(each for one in inner for each in _subclasses(one))]
