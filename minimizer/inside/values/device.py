"""Synchronises with the GPU, so that an asynchronous error is raised next to the code that caused it."""

from __future__ import annotations

import torch


def settle() -> None:
    """Wait for all kernels of this process, so that their errors are raised here and not attributed to later code.

    Does nothing if CUDA is not in use, or during a stream capture, which forbids waiting.
    """
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
