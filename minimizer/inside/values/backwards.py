"""Where each backward of a process passes, whatever call asks for it: autograd's engine, as Python starts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Run = Callable[..., Any]


def around_backwards(wrap: Callable[[Run], Run]) -> None:
    """Replace what starts autograd's engine, for the rest of this process. ``wrap``: makes the replacement of each such function."""
    for module in (torch.autograd, torch.autograd.graph):
        original = getattr(module, "_engine_run_backward", None)
        if original is not None:
            module._engine_run_backward = wrap(original)  # type: ignore[attr-defined]
