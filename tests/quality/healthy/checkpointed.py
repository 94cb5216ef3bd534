"""Activations that are computed again in the backward."""

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)

layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3))


@torch.compile
def deep(x):
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


deep(torch.randn(8, 16, requires_grad=True)).sum().backward()
