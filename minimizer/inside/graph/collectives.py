"""Detects graphs that communicate with other ranks, and so cannot be rerun by one rank alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..values.bodies import nodes_of

WHY_ONCE = "communicates with other ranks, which do not rerun it"
"""Reason in the report for a graph that `communicates`."""
_NAMESPACES = ("_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional", "symm_mem")


def communicates(module: fx.GraphModule) -> bool:
    """Whether a graph communicates with other ranks: rerun by one rank alone, it would wait forever."""
    return has_distributed_inputs(module) or any(
        node.op == "call_function" and is_collective(node.target) for node in nodes_of(module)
    )


def has_distributed_inputs(module: fx.GraphModule) -> bool:
    """Whether an input, of the graph or of a body in it, is distributed over several ranks: then any operator may communicate."""
    return any(node.op == "placeholder" and _is_distributed(node) for node in nodes_of(module))


def is_collective(target: Any) -> bool:
    """Whether a function communicates with other ranks, or waits for that."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):  # Dynamo has packets, AOT overloads
        return str(target).partition(".")[0] in _NAMESPACES
    return str(getattr(target, "__module__", "")).startswith("torch.distributed")


def _is_distributed(placeholder: fx.Node) -> bool:
    return type(placeholder.meta.get("example_value")).__module__.startswith("torch.distributed")
