"""Compiled regions of a traced script: the recording mode is off inside them, where each call of a graph is one event.

Dynamo traces modes that it sees, and guards on them: so the mode is removed from the stack at the entry of the wrapper
that ``torch.compile`` returns, and restored at its exit. The script's own computations between two graphs of one call
are not seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._C import _len_torch_function_stack, _pop_torch_function_stack, _push_on_torch_function_stack
from torch.overrides import TorchFunctionMode

from ..compiler.backend_place import Compile, Compiled, take_place
from ..compiler.entries import at_entries
from .graphs import TracedGraph
from .recorder import CALL, GRAPH, Recorder

IN_THREAD = "a call of a compiled graph in another thread"
IN_BACKWARD = "a call of a compiled graph in a backward, of which it is a part"


class Regions:
    """Hooks the compiled regions and graphs of this process permanently, and records graph calls of the current thread."""

    def __init__(self, recorder: Recorder, mode: TorchFunctionMode) -> None:
        self._recorder, self._mode = recorder, mode
        self._thread = threading.get_ident()
        self.graphs: list[TracedGraph] = []
        at_entries(self._enter)
        self._watch_graphs()

    def _enter(self) -> Callable[[], None]:
        """Entry hook of the wrapper; returns its exit hook."""
        above = _take(self._mode) if threading.get_ident() == self._thread and self._recorder.is_here else None
        if above is None:
            return lambda: None
        self._recorder.enter_region()

        def leave() -> None:
            self._recorder.leave_region()
            _put(self._mode, above)

        return leave

    def _watch_graphs(self) -> None:
        def compile_graph(backend: Any, module: fx.GraphModule, inputs: list[Any], compile_: Compile) -> Compiled:
            graph = TracedGraph(len(self.graphs), module, backend)
            self.graphs.append(graph)
            return lambda *args: self._call(graph, args)

        take_place(compile_graph)

    def _call(self, graph: TracedGraph, args: tuple[Any, ...]) -> Any:
        if threading.get_ident() != self._thread:
            self._recorder.leave_out(IN_THREAD)
            return graph.run(args)
        if self._recorder.is_in_backward or torch._C._current_graph_task_id() != -1:
            self._recorder.leave_out(IN_BACKWARD)
            return graph.run(args)
        try:
            graph.look(args)
            inputs = graph.inputs(args)
            self._recorder.find_state([value for value in inputs if isinstance(value, torch.Tensor)])
        except Exception as error:  # our own error, hidden from the script
            self._recorder.leave_out(f"a call of graph {graph.index} ({type(error).__name__}: {error})"[:300])
            return graph.run(args)
        return self._recorder.run(
            lambda number: graph.call_text(inputs, number),
            inputs,
            lambda: graph.run(args),
            kind=GRAPH if graph.program is not None else CALL,
            outputs=graph.outputs,
        )


def _take(mode: TorchFunctionMode) -> int | None:
    """Remove a mode from the stack, keeping those above it; returns their number, or None if the mode was not there."""
    above: list[Any] = []
    found = False
    while _len_torch_function_stack() and not found:
        top = _pop_torch_function_stack()
        found = top is mode
        if not found:
            above.append(top)
    _push(above)
    return len(above) if found else None


def _put(mode: TorchFunctionMode, above: int) -> None:
    """Push a mode below this many others, so that each ``with`` of the script ends its own."""
    others = [_pop_torch_function_stack() for _ in range(min(above, _len_torch_function_stack()))]
    _push([*others, mode])


def _push(modes: list[Any]) -> None:
    """Push modes, the last one first."""
    for mode in reversed(modes):
        _push_on_torch_function_stack(mode)
