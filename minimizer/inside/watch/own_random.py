"""Results of Inductor's own random operators: values come from another stream than eager's, but dtype, shape and device
must match.

Values are compared with eager's random numbers in compiled code (``fallback_random``), which disables Inductor's
decompositions of random operators. So a graph that draws is also traced with them, on fake tensors. Only if the result
differs from eager's is it compiled as in a plain script, and run.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, fx
from torch._inductor import config
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

from ..graph import state
from ..graph.graphs import copy_graph
from ..referee.call import Call, Side
from ..values import snapshot
from ..values.device import settle
from ..values.rounding import tensors

MOST_NODES = 500
"""Most operations of a graph to trace: about three seconds."""


def is_used_by(backend: Any) -> bool:
    """Whether a backend is Inductor, and its options do not request eager's random numbers."""
    is_inductor = "backend" not in state.compile_kwargs(backend, None) and not state.is_inline(backend)
    return is_inductor and not state.inductor_options(backend).get("fallback_random")


def in_use() -> AbstractContextManager[None]:
    """Let compiled code draw from Inductor's own generator inside."""
    return config.patch(fallback_random=False)


def gives_otherwise(module: fx.GraphModule, call: Call, expected: Side) -> bool:
    """Whether a result, traced with Inductor's own random operators, has another dtype, shape or device than eager's.

    Also False if the graph cannot be traced on fake tensors, or is too large.
    """
    if len(module.graph.nodes) > MOST_NODES:
        return False
    try:
        with in_use():
            return _described(_traced(module, call)) != _described(expected.result)
    except Exception:  # data-dependent sizes, operators without a decomposition for fake tensors
        return False


def compiled_side(module: fx.GraphModule, backend: Any, call: Call, expected: Side) -> Side:
    """The side that Inductor compiles with its own random operators, in the container of eager's.

    Raises:
        Exception: whatever the compiler or compiled code raises.
    """
    return compiled_result(module, backend, call).in_container_of(expected)


def compiled_result(module: fx.GraphModule, backend: Any, call: Call) -> Side:
    """`compiled_side` where eager has none, because it raises."""
    options = state.inductor_options(backend)
    inputs = snapshot.clone(list(call.inputs))
    with in_use(), call.started():
        graph = fx.GraphModule(module, copy_graph(module.graph))
        result = torch._inductor.compile(graph, inputs, options=options)(*inputs)
    settle()
    return Side(result, inputs)


def _traced(module: fx.GraphModule, call: Call) -> Any:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = tree_map(lambda value: mode.from_tensor(value) if isinstance(value, Tensor) else value, list(call.inputs))
    with call.switches.applied(), torch.no_grad(), mode:
        traced = make_fx(module, decomposition_table=select_decomp_table())(*inputs)
    (output,) = traced.graph.find_nodes(op="output")
    return tree_map(lambda node: node.meta["val"] if isinstance(node, fx.Node) else node, output.args[0])


def _described(values: Any) -> list[tuple[torch.dtype, tuple[int, ...], str]]:
    return [(tensor.dtype, tuple(tensor.shape), tensor.device.type) for tensor in tensors(values)]
