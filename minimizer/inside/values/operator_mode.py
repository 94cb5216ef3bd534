"""A dispatch mode that sees an eager run operator by operator, each on plain tensors."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .rounding import tensors

DEVICES = ("cpu", "cuda")
"""Types of devices whose names are those of their dispatch keys."""


class OperatorMode(TorchDispatchMode):
    """Passes each operator of a run to `called`, and calls made there are not the program's.

    A composite operator that has no kernel for its tensors comes by its parts: autograd takes it apart, but not in inference mode,
    nor where a subclass computes with the tensors that it holds. An operator on nested tensors comes as what they do with the
    tensors inside of them, whose sizes can be compared and whose values lie in storages.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if NestedTensor in types:
            return NotImplemented
        with torch._C.DisableTorchFunction():
            if isinstance(func, torch._ops.OpOverload) and _runs_in_parts(func, args, kwargs):
                with self:
                    return func.decompose(*args, **kwargs or {})
            return self.called(func, args, kwargs or {})

    @abstractmethod
    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator, called here; ``func`` is an ``OpOverload`` that has a kernel, or a higher-order operator."""


def _runs_in_parts(func: torch._ops.OpOverload, args: Any, kwargs: Any) -> bool:
    """Whether the dispatcher takes the operator apart: eager runs the kernel of a backend that has one, which may round less often."""
    if not _is_composite(func):  # most are not: their arguments are not looked through
        return False
    found = tensors((args, kwargs))
    kinds = ("", "NestedTensor") if any(tensor.is_nested for tensor in found) else ("",)
    devices = {tensor.device.type for tensor in found}.intersection(DEVICES)
    return not any(_has_kernel_for(func, f"{kind}{device.upper()}") for device in devices for kind in kinds)


@functools.cache
def _is_composite(func: torch._ops.OpOverload) -> bool:
    # One of TorchScript's, such as prim::device, has no kernel, and may not be asked for one.
    return torch._C._dispatch_has_kernel(func.name()) and _has_kernel_for(func, "CompositeImplicitAutograd")


def _has_kernel_for(func: torch._ops.OpOverload, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key)
