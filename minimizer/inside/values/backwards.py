"""Intercepts each backward of a process, whichever call requests it, at Python's entry to autograd's engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..hooks import required

Run = Callable[..., Any]


def around_backwards(wrap: Callable[[Run], Run]) -> None:
    """Replace the functions that start autograd's engine, for the rest of this process.

    ``wrap``: makes each replacement.

    Raises:
        MissingHook: this torch has no such function.
    """
    modules: tuple[Any, ...] = (torch.autograd, torch.autograd.graph)
    for module, original in [(module, required(module, "_engine_run_backward")) for module in modules]:
        module._engine_run_backward = wrap(original)
