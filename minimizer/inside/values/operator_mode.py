"""A dispatch mode that sees an eager run operator by operator, each on plain tensors."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):
    """Passes each operator of a run to `called`, and calls made there are not the program's.

    A composite operator comes by its parts: autograd takes it apart, but not in inference mode, nor where a subclass computes
    with the tensors that it holds. An operator on nested tensors comes as what they do with the tensors inside of them, whose
    sizes can be compared and whose values lie in storages.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if NestedTensor in types:
            return NotImplemented
        with torch._C.DisableTorchFunction():
            if isinstance(func, torch._ops.OpOverload) and _is_composite(func):
                with self:
                    return func.decompose(*args, **kwargs or {})
            return self.called(func, args, kwargs or {})

    @abstractmethod
    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator, called here; ``func`` is an ``OpOverload`` that is no composite one, or a higher-order operator."""


@functools.cache
def _is_composite(func: torch._ops.OpOverload) -> bool:
    name = func.name()  # one of TorchScript's, such as prim::device, has no kernel, and may not be asked for one
    return torch._C._dispatch_has_kernel(name) and torch._C._dispatch_has_kernel_for_dispatch_key(
        name, "CompositeImplicitAutograd"
    )
