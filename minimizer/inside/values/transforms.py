"""The levels of ``torch.func``, which a graph of Dynamo enters and leaves by calls of its own.

A run that ends halfway leaves none of them, and whatever the process does next happens inside of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_functorch: Any = torch._C._functorch


@contextlib.contextmanager
def left_again() -> Iterator[None]:
    """Leave, after the body, what it has entered and not left."""
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
    """There is one at a time, and nothing tells of it but that no other can be entered."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        return True
    torch._C._exit_dual_level(level=level)
    return False
