"""A batch that no memory holds: the script fails with the compiler and without."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to(device)
compiled = torch.compile(model)
print(compiled(torch.randn(16, 64, device=device)).shape)
print(compiled(torch.zeros(1 << 42, 64, device=device)).shape)
