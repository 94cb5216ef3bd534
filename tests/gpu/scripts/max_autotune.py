"""A healthy network under max-autotune: which template wins may differ from run to run, and rounding with it."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 128)).to(device).eval()
compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
with torch.no_grad():
    for _ in range(3):
        print(compiled(torch.randn(64, 128, device=device)).sum().item())
