"""The mode under which a script is traced: each call of torch that computes something is an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .inputs import flat
from .recorder import BACKWARD, CALL, Recorder
from .surroundings import hindrance
from .text import IN_PLACE, call_text

QUIET = frozenset(
    [
        "size", "stride", "dim", "ndimension", "numel", "nelement", "storage_offset", "element_size", "data_ptr", "get_device",
        "is_floating_point", "is_complex", "is_signed", "is_contiguous", "is_inference", "is_conj", "is_neg", "is_shared", "is_pinned",
        "is_nonzero", "is_same_size", "item", "tolist", "numpy", "type", "untyped_storage", "storage", "has_names", "__len__", "__bool__",
        "__int__", "__float__", "__index__", "__complex__", "__repr__", "__format__", "__hash__", "__contains__", "__dir__", "__array__",
        "__dlpack__", "__dlpack_device__", "__reduce_ex__", "__deepcopy__", "_set_grad_enabled", "equal", "allclose", "result_type",
        "can_cast", "is_tensor", "is_storage", "device", "_is_zerotensor", "_version", "get_default_dtype", "_has_compatible_shallow_copy_type",
    ]
)  # fmt: skip
"""Functions that neither compute nor change a tensor."""
LOOKS = frozenset(
    [
        "item", "tolist", "numpy", "is_nonzero", "equal", "allclose", "__bool__", "__int__", "__float__", "__index__", "__complex__",
        "__repr__", "__format__", "__contains__", "__array__",
    ]
)  # fmt: skip
"""Functions with which a script reads values: for a check of its own, or to print."""
VIEWS, SET = ("data", "T", "mT", "H", "mH", "real", "imag"), ("grad", "data", "requires_grad")
"""Attributes of a tensor that are tensors, and those that matter when set."""
BACKWARDS = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
OF_PROFILER = "_record_function"
HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
ALWAYS = ("retain_grad",)
"""Functions that return nothing and change no value, but matter."""


class Noting(TorchFunctionMode):
    """Passes each call of torch by the script to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, and record it if it computes or changes something."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        is_in_place = (name.endswith("_") and not name.endswith("__")) or name in IN_PLACE or name == "__setitem__"
        if name in LOOKS and self._recorder.is_on and not self._recorder.cut:
            self._recorder.look(flat((args, kwargs)))
        if name in QUIET or OF_PROFILER in name or self._recorder.cut or not self._recorder.is_here:
            return func(*args, **kwargs)
        if not self._recorder.is_on:
            # Initialization changes a leaf in place.
            computes = not is_in_place and name not in ("__get__", "__set__") and torch.is_grad_enabled()
            if not (computes and any(_requires_grad(value) for value in flat((args, kwargs)))):
                return func(*args, **kwargs)
            self._recorder.is_on = True
        if name in ("__get__", "__set__"):
            return self._attribute(func, name, args)
        why = hindrance()
        if why:
            self._recorder.leave_out(why)
            return func(*args, **kwargs)
        if name in HOOKS:
            self._recorder.leave_out(f"a hook ({name})")
        is_backward = func in BACKWARDS
        return self._recorder.run(
            lambda number: call_text(func, args, kwargs, number),
            (args, kwargs),
            lambda: func(*args, **kwargs),
            kind=BACKWARD if is_backward else CALL,
            in_place=is_in_place or name in ALWAYS,
        )

    def _attribute(self, func: Any, name: str, args: tuple[Any, ...]) -> Any:
        attribute = getattr(getattr(func, "__self__", None), "__name__", "")
        tensor = args[0]
        if name == "__set__" and attribute in SET:
            return self._recorder.set_attribute(tensor, attribute, args[1], lambda: func(*args))
        value = func(*args)
        if name == "__get__" and isinstance(value, Tensor) and attribute in ("grad", *VIEWS):
            self._recorder.attribute(tensor, attribute, value)
        return value


def _requires_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
