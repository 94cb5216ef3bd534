"""Detects CUDA graphs: their capture by the script itself, as in inference servers with compiled models, and their
memory.

A capture records all kernel launches and forbids synchronisation: a comparison would become part of the script's CUDA
graph, or abort the script.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

WHY_CAPTURED = "was made while the script captured a CUDA graph, where nothing else may run"
DEFAULT_POOL = (0, 0)
"""The memory pool of no CUDA graph; see ``torch.cuda.memory_snapshot``."""


def is_capturing() -> bool:
    """Whether the current stream is being captured; does not initialise CUDA."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def is_of_cuda_graphs(tensor: Tensor) -> bool:
    """Whether a tensor's memory is in a pool of CUDA graphs, or may be; does not initialise CUDA."""
    if not torch.cuda.is_initialized():
        return False
    address = tensor.data_ptr()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return tuple(segment["segment_pool_id"]) != DEFAULT_POOL
    return tensor.is_cuda


def runs_cuda_graphs() -> bool:
    """Whether compiled code of this process runs in CUDA graphs, or may: Inductor has a tree of them for the current device."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is None or not torch.cuda.is_initialized():
        return False
    return trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False) is not None
