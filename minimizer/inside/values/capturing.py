"""Detects CUDA graph capture by the script itself, as inference servers do with compiled models.

A capture records all kernel launches and forbids synchronisation: a comparison would become part of the script's CUDA graph, or
abort the script.
"""

from __future__ import annotations

import torch

WHY_CAPTURED = "was made while the script captured a CUDA graph, where nothing else may run"


def is_capturing() -> bool:
    """Whether the current stream is being captured; does not initialise CUDA."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
