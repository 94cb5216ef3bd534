"""What is still running on the GPU is waited for, so that an error is raised next to the code that made it."""

from __future__ import annotations

import torch


def settle() -> None:
    """Wait for all kernels of this process, so that the error of one is raised here, and not laid to what runs next.

    Does nothing where CUDA was not used, or while a stream is captured, which may not be waited for.
    """
    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
