"""Functions compiled with some of their arguments as constants, as Inductor takes a module's tensors where it freezes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


def compiled(function: Function, constants: Sequence[int], options: Mapping[str, Any]) -> Function:
    """``torch.compile`` a function with these ``options``, for which the arguments at ``constants`` are attributes of a module.

    They are those of the first call; later ones are written into them, which frozen code does not see, as where a script does so. What a call
    writes to them is written to its arguments too.
    """
    if not constants:
        return torch.compile(function, **options)
    names = {index: f"constant_{index}" for index in constants}
    module = torch.nn.Module()

    def reading(*args: Any) -> Any:
        return function(*(getattr(module, names[index]) if index in names else arg for index, arg in enumerate(args)))

    run = torch.compile(reading, **options)

    def call(*args: Any) -> Any:
        for index, name in names.items():
            if not hasattr(module, name):
                setattr(module, name, args[index])
            elif getattr(module, name) is not args[index]:
                getattr(module, name).copy_(args[index])
        versions = {name: _version(getattr(module, name)) for name in names.values()}
        result = run(*args)
        for index, name in names.items():
            constant = getattr(module, name)
            if constant is not args[index] and _version(constant) != versions[name]:
                args[index].copy_(constant)
        return result

    return call


def _version(tensor: torch.Tensor) -> int:
    """How often it was written to; tensors of inference mode do not count that."""
    return 0 if tensor.is_inference() else tensor._version
