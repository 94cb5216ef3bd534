"""The modes and switches of an event, as contexts and statements that restore them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..gpu import has_gpu, runtime
from ..hooks import required
from ..values.snapshot import matmul_precision

SWITCHES: tuple[tuple[Callable[[], Any], str, Any], ...] = (
    (torch.get_default_dtype, "torch.set_default_dtype({})", torch.float32),
    (torch.are_deterministic_algorithms_enabled, "torch.use_deterministic_algorithms({})", False),
    (matmul_precision, "torch.set_float32_matmul_precision({!r})", "highest"),
)
"""For each switch: its getter, the statement that sets it, and its value in a fresh process."""


def contexts() -> tuple[str, ...]:
    """Expressions for the contexts of an event, outermost first: autocast, inference mode, grad mode."""
    devices = ("cpu", "cuda") if runtime() is torch.cuda and has_gpu() else ("cpu",)
    found = [
        f'torch.autocast("{device}", dtype={torch.get_autocast_dtype(device)})'
        for device in devices
        if torch.is_autocast_enabled(device)
    ]
    if torch.is_inference_mode_enabled():
        return (*found, "torch.inference_mode()")
    return tuple(found) if torch.is_grad_enabled() else (*found, "torch.no_grad()")


class Switches:
    """The switches at the last event."""

    def __init__(self) -> None:
        self._values = [usual for _, _, usual in SWITCHES]

    def changes(self) -> list[str]:
        """Statements for the switches changed since the last event; at the first event, for those unlike a fresh
        process.
        """
        statements = []
        for index, (read, statement, _) in enumerate(SWITCHES):
            value = read()
            if value is not None and value != self._values[index]:
                self._values[index] = value
                statements.append(statement.format(value))
        return statements


def hindrance() -> str:
    """Why a call made now has no source text; empty if it has."""
    functorch: Any = torch._C._functorch
    if functorch.maybe_current_level() is not None:
        return "a call inside of a transform of torch.func"
    return ""


def has_hooks_of_saved_tensors() -> bool:
    """Whether hooks change the saved tensors of a backward, as checkpoints do: the program has none."""
    return required(torch._C._autograd, "_top_saved_tensors_default_hooks")(True) is not None
