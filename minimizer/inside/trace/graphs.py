"""The compiled graphs of a trace: Dynamo's graphs as functions of the program, run by eager's kernels.

So the script reaches its end even if the compiler fails, and the values that the program starts from are eager's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

from ..graph import state
from ..graph.lifted import LiftedGraph
from ..graph.literals import Opaque
from ..graph.lowering import write_down
from ..places import caller
from ..values import snapshot
from ..wire import Message
from .text import value_text


def function_name(index: int) -> str:
    """The name of a graph's function in the program."""
    return f"graph_{index}"


class TracedGraph:
    """A graph as captured by Dynamo. ``program``: its data, once called; ``why_not``: why it has none."""

    def __init__(self, index: int, module: fx.GraphModule, backend: Any) -> None:
        self.index, self._original, self._backend = index, module, backend
        self._lifted = LiftedGraph(module)
        self._called_from = caller()
        self.program: Message | None = None
        self.why_not = ""
        self._inputs: list[tuple[int, str | None]] = []
        """For each input of the program: its index among the graph's, and the number in its place."""
        self._outputs: list[int] = []
        """The indices of the program's outputs among the leaves of the graph's result."""

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """All values that a call reads."""
        return self._lifted.inputs(args)

    def run(self, args: Sequence[Any]) -> Any:
        """Run it in eager, on its own tensors."""
        return self._original(*args)

    def look(self, args: Sequence[Any]) -> None:
        """Write the graph down at its first call."""
        if self.program is not None or self.why_not:
            return
        try:
            self._write(self._lifted.inputs(args))
        except Exception as error:
            self.why_not = f"{type(error).__name__}: {error}"[:300]

    def call_text(self, inputs: Sequence[Any], number: Callable[[Any], str]) -> str:
        """Source text of a call of its function.

        Raises:
            Opaque: it has no source text.
        """
        if self.program is None:
            raise Opaque(f"graph {self.index}, which has no source text ({self.why_not})")
        given = [
            _number(inputs[at]) if code is not None else value_text(_plain(inputs[at]), number)
            for at, code in self._inputs
        ]
        return f"{function_name(self.index)}({', '.join(given)})"

    def outputs(self, result: Any) -> Any:
        """The function's result for this result of the graph: one value, or a tuple."""
        leaves = tree_leaves(result)
        values = tuple(leaves[at] for at in self._outputs)
        return values[0] if len(values) == 1 else values

    def _write(self, inputs: list[Any]) -> None:
        rng, values = snapshot.rng_state(), snapshot.clone(list(inputs))
        try:
            module, _, body = write_down(
                self._lifted.module, values, rng, level="auto", called_from=self._called_from, cotangents=None
            )
        finally:
            snapshot.set_rng_state(rng)
        names = body.pop("names")
        places = {node: index for index, node in enumerate(module.graph.find_nodes(op="placeholder"))}
        self._inputs = [(places[names[item["name"]]], item.get("code")) for item in body["inputs"]]
        returned = tree_leaves(module.graph.find_nodes(op="output")[0].args[0])
        by_node = {node: name for name, node in names.items()}
        found = {
            by_node[node]: index for index, node in reversed(list(enumerate(returned))) if isinstance(node, fx.Node)
        }
        self._outputs = [found[name] for name in body["outputs"]]
        self.program = {
            **body,
            "setup": [],
            "compile_kwargs": state.compile_kwargs(self._backend, getattr(self._backend, "dynamic", None)),
            "has_inline_backend": state.is_inline(self._backend),
            "grad": torch.is_grad_enabled(),
        }


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, torch.SymInt) else value


def _number(value: Any) -> str:
    """The number in an argument that Dynamo may have wrapped in a tensor."""
    return value_text(value.item() if isinstance(value, Tensor) else value, lambda _: "")
