"""A dispatch mode that sees an eager run operator by operator, each on plain tensors."""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

import torch
from torch.nested._internal.nested_tensor import NestedTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICES = ("cpu", "cuda")
"""Types of devices whose names are those of their dispatch keys."""


class OperatorMode(TorchDispatchMode):
    """Passes each operator of a run to `called`, and calls made there are not the program's.

    A composite operator that has no kernel for its tensors comes by its parts: autograd takes it apart, but not in inference mode,
    nor where a subclass computes with the tensors that it holds. An operator on nested tensors comes as what they do with the tensors inside of them, whose
    sizes can be compared and whose values lie in storages.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if NestedTensor in types:
            return NotImplemented
        with torch._C.DisableTorchFunction():
            if isinstance(func, torch._ops.OpOverload) and _runs_in_parts(func, _backends((args, kwargs))):
                with self:
                    return func.decompose(*args, **kwargs or {})
            return self.called(func, args, kwargs or {})

    @abstractmethod
    def called(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator, called here; ``func`` is an ``OpOverload`` that has a kernel, or a higher-order operator."""


def _backends(values: Any) -> frozenset[str]:
    """The dispatch keys of the backends that the tensors among these values have kernels of."""
    found = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    kinds = ("", "NestedTensor") if any(value.is_nested for value in found) else ("",)
    return frozenset(
        f"{kind}{value.device.type.upper()}" for value in found for kind in kinds if value.device.type in DEVICES
    )


@functools.cache
def _runs_in_parts(func: torch._ops.OpOverload, backends: frozenset[str]) -> bool:
    """Whether the dispatcher takes the operator apart: eager runs the kernel of a backend that has one, which may round less often."""
    name = func.name()  # one of TorchScript's, such as prim::device, has no kernel, and may not be asked for one
    has_kernel_for = torch._C._dispatch_has_kernel_for_dispatch_key
    if not torch._C._dispatch_has_kernel(name) or not has_kernel_for(name, "CompositeImplicitAutograd"):
        return False
    return not any(has_kernel_for(name, backend) for backend in backends)
