"""Bodies of higher-order operators in captured graphs, as functions that a person can call."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.while_loop import while_loop

from minimizer.inside.graph.graphs import to_json


class Counter(torch.nn.Module):
    """A loop whose condition counts in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rounds", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        def unfinished(step: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
            self.rounds.add_(1)  # type: ignore[operator]
            return step < 3

        def advance(step: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return step + 1, state * x

        return while_loop(unfinished, advance, (torch.zeros((), dtype=torch.int64), x))


def test_a_loop_that_changes_what_it_captures_is_written_as_one_may_call_it() -> None:
    """Dynamo notes on the operator what its bodies change, and takes no such note from a caller."""
    captured: list[dict[str, Any]] = []

    def keep(module: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        assert "mutated_arg_indices" in str(module.graph)
        captured.append(to_json(module.graph, inputs, called_from=None, level="dynamo"))
        return module

    with torch.no_grad():
        torch.compile(Counter(), backend=keep)(torch.ones(2))
    (graph,) = captured
    loop = next(node for node in graph["nodes"] if node["target"].endswith(".while_loop"))
    assert loop["kwargs"] == {}
    names = {name for body in graph["functions"] for name in body["parameters"]}
    assert {"rounds", "x"} <= names and not any(name.endswith("_fn") for name in names)
