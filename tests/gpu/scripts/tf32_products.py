"""Matrix products and a convolution in TF32 (bf16 on a CPU that has it): legal differences of a thousandth."""

import sys

import torch
from torch import nn

device = sys.argv[1]
torch.set_float32_matmul_precision("high" if device == "cuda" else "medium")
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(16 * 256, 256), nn.Tanh(), nn.Linear(256, 32)
).to(device)
compiled = torch.compile(model)
for _ in range(2):
    loss = compiled(torch.randn(8, 3, 16, 16, device=device)).square().mean()
    loss.backward()
print(loss.item())
