"""Synchronises with the GPU, so that an asynchronous error is raised next to the code that caused it."""

from __future__ import annotations

import torch


def settle() -> None:
    """Wait for all kernels of this process, so that their errors are raised here and not attributed to later code.

    Does nothing if CUDA is not in use, or during a stream capture, which forbids waiting.
    """
    if _is_in_use():
        torch.cuda.synchronize()


def settle_stream() -> None:
    """`settle` for the current stream only: a collective on a stream of its own, for which nothing waits, may need what other ranks do later."""
    if _is_in_use():
        torch.cuda.current_stream().synchronize()


def _is_in_use() -> bool:
    return torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing()
