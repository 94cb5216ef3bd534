"""Outputs of three calls under reduce-overhead that are kept: the next replay overwrites them, and PyTorch may refuse to read them."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to(device).eval()
compiled = torch.compile(model, mode="reduce-overhead")
with torch.no_grad():
    for _ in range(3):
        compiled(torch.randn(16, 64, device=device))
    kept = [compiled(torch.randn(16, 64, device=device)) for _ in range(3)]
    print(torch.stack(kept).sum().item())
