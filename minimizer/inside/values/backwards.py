"""Intercepts each backward of a process, whichever call requests it, at Python's entry to autograd's engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Run = Callable[..., Any]


def around_backwards(wrap: Callable[[Run], Run]) -> None:
    """Replace the functions that start autograd's engine, for the rest of this process.

    ``wrap``: makes each replacement.
    """
    for module in (torch.autograd, torch.autograd.graph):
        original = getattr(module, "_engine_run_backward", None)
        if original is not None:
            module._engine_run_backward = wrap(original)  # type: ignore[attr-defined]
