"""A variant of Dynamo's backend ``eager`` that runs graphs as traced, unaffected by the script's overrides of torch
functions.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import overrides
from torch._dynamo.backends.debugging import aot_eager
from torch.utils._device import DeviceContext

MOST_GRAPHS, MOST_CALLS = 10_000, 1000
"""Most graphs, and most calls of each, for which the number of the outermost call is reported."""
BUILTINS = {name: part for name, part in vars(torch).items() if isinstance(part, types.BuiltinFunctionType)}
"""The C++ functions of the module `torch`, before a script replaces any."""


def eager_as_traced(
    graph_calls: list[list[int]],
    outermost: Callable[[], int],
    of_graph: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    *,
    aot: bool = False,
) -> Callable[..., Any]:
    """A variant of Dynamo's backend ``eager`` that fills ``graph_calls``; see `ExactLog` on the torch-free side.

    ``of_graph``: creates the context in which each graph runs. ``aot``: whether AOTAutograd traces them first.
    """

    def eager(graph: torch.fx.GraphModule, inputs: Any, **_: Any) -> Callable[..., Any]:
        targets = [
            node.target
            for part in graph.modules()
            if isinstance(part, torch.fx.GraphModule)
            for node in part.graph.nodes
        ]
        run = aot_eager(graph, inputs) if aot else graph.forward
        builtins = {name for t in targets if BUILTINS.get(name := getattr(t, "__name__", "")) is t}
        if len(graph_calls) == MOST_GRAPHS:
            return _as_traced(run, builtins, of_graph)
        calls: list[int] = []
        graph_calls.append(calls)

        def forward(*args: Any) -> Any:
            if len(calls) < MOST_CALLS:
                calls.append(outermost())
            return run(*args)

        return _as_traced(forward, builtins, of_graph)

    return eager


def _as_traced(
    forward: Callable[..., Any], builtins: set[str], of_graph: Callable[[], AbstractContextManager[object]]
) -> Callable[..., Any]:
    """Run a graph without the script's overrides of torch functions: Dynamo has traced these into the graph.

    Inductor's code calls none of them. The graph itself would apply the script's torch function modes twice, and also a
    replacement of one of ``builtins``, since its code finds those by name. A mode that sets the default device stays:
    Dynamo leaves it to the run, and applying it twice changes nothing.
    """

    @functools.wraps(forward)
    def run(*args: Any) -> Any:
        replaced = {name: vars(torch).get(name) for name in builtins if vars(torch).get(name) is not BUILTINS[name]}
        modes = _popped()
        kept = [mode for mode in modes if isinstance(mode, DeviceContext)]
        _push(kept)
        vars(torch).update({name: BUILTINS[name] for name in replaced})
        try:
            with of_graph():
                return forward(*args)
        finally:
            vars(torch).update(replaced)
            left = _popped()
            _push(modes if left == kept else [*(mode for mode in modes if not isinstance(mode, DeviceContext)), *left])

    return run


def _popped() -> list[Any]:
    """Leave all torch function modes; returns them, innermost first."""
    return [overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack())]


def _push(modes: Sequence[Any]) -> None:
    """Enter torch function modes, given innermost first."""
    for mode in reversed(modes):
        overrides._push_mode(mode)
