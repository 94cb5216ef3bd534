"""Records a function's eager run: the aten operators, the number of torch calls, and unusual kinds of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..values import bodies


class Operators(TorchDispatchMode):
    """Collects the names of all dispatched operators in order, each once: packets such as ``aten.relu``; for a higher-order operator
    its own name (``higher_order.cond``) and the operators of its bodies."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            self._saw(f"higher_order.{func.name()}")
            return bodies.call(self, func, args, kwargs or {})
        self._saw(func._overloadpacket._qualified_op_name.replace("::", "."))
        return func(*args, **(kwargs or {}))

    def _saw(self, name: str) -> None:
        if name not in self.seen:
            self.seen.append(name)


class TorchCalls(TorchFunctionMode):
    """Counts calls of torch functions and methods, which is comparable to the number of call nodes in a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") != "__get__"  # reading a tensor's attribute is not a call
        return func(*args, **(kwargs or {}))


def unusual(values: Any) -> list[str]:
    """Descriptions of the tensors that are not plain: ZeroTensors, lazily conjugated or negated tensors, subclasses."""
    found: dict[str, None] = {}
    for leaf in tree_leaves(values):
        if not isinstance(leaf, torch.Tensor):
            continue
        if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
            found[f"{type(leaf).__name__} input"] = None
        elif leaf._is_zerotensor():
            found["ZeroTensor input"] = None
        elif leaf.is_conj() or leaf.is_neg():
            found["conjugated input" if leaf.is_conj() else "negated input"] = None
    return list(found)
