"""Records a function's eager run: the aten operators, the number of torch calls, and unusual types of tensors."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..values import bodies

MOST_CALLS = 5000
"""Most recorded places of operators: the first calls of a script show everything needed."""


class Operators(TorchDispatchMode):
    """Collects the names of all dispatched operators in order, each once: packets such as ``aten.relu``.

    For a higher-order operator, its own name (``higher_order.cond``) and the operators of its bodies.
    """

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


@dataclass(frozen=True)
class Call:
    """An operator, the line of a script that calls it (0 if none does), and the module of the call."""

    op: str
    line: int
    module: str


class PlacedOperators(Operators):
    """Collects, in addition to names, the place of each operator in a script and in the running modules."""

    def __init__(self, script: str) -> None:
        super().__init__()
        self.calls: dict[Call, None] = {}
        self._script = script
        self._running: list[torch.nn.Module] = []
        self._path: str | None = None
        """The path of the running module; None until requested."""

    def follow_modules(self) -> None:
        """Track the running modules from now on, in this whole process."""
        torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: self._entered(module))
        torch.nn.modules.module.register_module_forward_hook(lambda *_: self._left(), always_call=True)

    def _entered(self, module: torch.nn.Module) -> None:
        self._running.append(module)
        self._path = None

    def _left(self) -> None:
        self._running.pop()
        self._path = None

    def _saw(self, name: str) -> None:
        super()._saw(name)
        if len(self.calls) < MOST_CALLS:
            self.calls[Call(name, self._line(), self._module())] = None

    def _line(self) -> int:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != self._script:
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def _module(self) -> str:
        """The path of the running module, from the outermost running one."""
        if self._path is None and self._running:
            root, innermost = self._running[0], self._running[-1]
            self._path = next((name for name, module in root.named_modules() if module is innermost), "")
        return self._path or ""


class TorchCalls(TorchFunctionMode):
    """Counts calls of torch functions and methods, which is comparable to the number of call nodes in a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") != "__get__"  # reading a tensor's attribute is not a call
        return func(*args, **(kwargs or {}))


def unusual(values: Any) -> list[str]:
    """Descriptions of non-plain tensors: ZeroTensors, lazily conjugated or negated tensors, subclasses."""
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
