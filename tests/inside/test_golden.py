"""Golden values of a captured graph: what is copied together stays together."""

from __future__ import annotations

import torch
from torch import fx

from minimizer.inside.golden import GoldenGraph
from minimizer.inside.snapshot import rng_state


def test_inputs_keep_the_storage_they_share() -> None:
    module = fx.symbolic_trace(lambda whole, head: whole.mul_(0.5) + head.sum())
    whole = torch.ones(4)
    graph = GoldenGraph(module, [whole, whole[:2]], rng_state(), {node.name: node for node in module.graph.nodes})
    found = graph.values(["whole", "head", "mul_"])
    assert found["whole"].tolist() == [1.0] * 4
    found["whole"][0] = 7.0
    assert found["head"].tolist() == [7.0, 1.0]
    assert found["mul_"].tolist() == [0.5] * 4
    assert whole.tolist() == [1.0] * 4
