"""Equal layers, each compiled by itself, in training and then in evaluation without `no_grad`."""

import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(torch.compile(nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU())) for _ in range(20))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)


def run(x):
    for layer in layers:
        x = x + layer(x)
    return x


for _ in range(3):
    loss = run(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for _ in range(2):
    print(f"{run(torch.randn(8, 16)).square().mean().item():.4f}")
