"""The bodies of higher-order operators: what is in them, and how they run under a dispatch mode instead of out of its sight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import fx
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

ENTERED = frozenset(["cond", "invoke_subgraph", "map_impl", "scan", "while_loop"])
"""Operators that call their bodies on plain tensors. The others (flex_attention) do so under a transform, or compute by themselves."""
RETURNED = frozenset(["cond", "invoke_subgraph"])
"""Those of them whose results are what a body returned."""


def nodes_of(module: fx.GraphModule) -> Iterator[fx.Node]:
    """All nodes of a graph, and of the bodies in it."""
    for part in module.modules():
        if isinstance(part, fx.GraphModule):
            yield from part.graph.nodes


def is_entered(func: HigherOrderOperator) -> bool:
    """Whether `call` shows the mode all that is computed."""
    return func.name() in ENTERED


def call(mode: TorchDispatchMode, func: HigherOrderOperator, args: Any, kwargs: Any) -> Any:
    """Call an operator from within ``mode.__torch_dispatch__``, where the mode is off; it is on again in the bodies."""
    if is_entered(func):
        args = tuple(_under(mode, arg) if callable(arg) else arg for arg in args)
    return func(*args, **kwargs)


def _under(mode: TorchDispatchMode, body: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        with mode:
            return body(*args)

    return run
