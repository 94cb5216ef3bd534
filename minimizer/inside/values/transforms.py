"""Restores the levels of ``torch.func`` transforms, which a Dynamo graph enters and leaves by explicit calls.

A run that raises halfway leaves none of them, and everything that the process does next would happen inside them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_functorch: Any = torch._C._functorch


@contextlib.contextmanager
def left_again() -> Iterator[None]:
    """Leave, on exit, all transform levels that were entered inside and not left."""
    depth, was_dual = _functorch.get_dynamic_layer_stack_depth(), _is_in_dual_level()
    forward = torch._C._is_fwd_grad_enabled()
    try:
        yield
    finally:
        _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        if not was_dual and _is_in_dual_level():
            torch._C._exit_dual_level(level=0)
        torch._C._set_fwd_grad_enabled(forward)


def _is_in_dual_level() -> bool:
    """Whether a dual level is open. Only one can be, and the only way to detect it is that no other can be entered."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        return True
    torch._C._exit_dual_level(level=level)
    return False
