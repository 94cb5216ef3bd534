"""The bodies of higher-order operators: their nodes, and how to run them so that a dispatch mode sees inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import fx
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

ENTERED = frozenset(["cond", "invoke_subgraph", "map_impl", "scan", "while_loop"])
"""Operators that call their bodies on plain tensors. Others, such as flex_attention, do so under a transform or compute directly."""
DIRECT = frozenset(["flex_attention", "flex_attention_backward"])
"""Operators that compute directly, and in double precision on such operands
(``torch/_higher_order_ops/flex_attention.py``).
"""
RETURNED = frozenset(["cond", "invoke_subgraph"])
"""Operators among `ENTERED` whose results are exactly what a body returned."""


def nodes_of(module: fx.GraphModule) -> Iterator[fx.Node]:
    """All nodes of a graph, and of the bodies of its higher-order operators."""
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from part.graph.nodes


def is_entered(func: HigherOrderOperator) -> bool:
    """Whether `call` lets the mode see the operator's whole computation."""
    return func.name() in ENTERED


def has_truth(func: HigherOrderOperator) -> bool:
    """Whether the operator computes in double precision on such operands."""
    return is_entered(func) or func.name() in DIRECT


def call(mode: TorchDispatchMode, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call an operator from within ``mode.__torch_dispatch__`` (where the mode is off), with the mode on in its bodies."""
    if is_entered(func):
        args = tuple(_under(mode, arg) if callable(arg) else arg for arg in args)
    return func(*args, **kwargs)


def _under(mode: TorchDispatchMode, body: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with mode:
            return body(*args)

    return run
