"""Captures of CUDA graphs by the script itself, as inference servers make them over compiled models.

A capture records what is launched and forbids what waits for the device: a comparison in it would end up in the script's graph, or
end the script.
"""

from __future__ import annotations

import torch

WHY_CAPTURED = "was made while the script captured a CUDA graph, where nothing else may run"


def is_capturing() -> bool:
    """Whether the current stream is being captured; starts no context of CUDA."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
