"""Runs of ours without the script's hooks on the tensors that autograd saves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def left() -> Iterator[None]:
    """Leave all hooks on saved tensors for the body, and have them again behind it.

    They see what the script's own run saves. A checkpoint counts the tensors of a call, to find them again by their numbers when it makes
    the call once more: those of a run of ours in between would be taken for the script's.
    """
    autograd = torch._C._autograd
    hooks = []
    # Where hooks are forbidden none could be put back; `torch.func` does so.
    if autograd._saved_tensors_hooks_get_disabled_error_message() is None:
        while (pair := autograd._top_saved_tensors_default_hooks(True)) is not None:
            hooks.append(pair)
            autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)
