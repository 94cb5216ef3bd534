"""A normalization that leaves the alignment of its input to the compiler."""

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x.contiguous()
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.norm = Norm(width)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.norm(x)


def main():
    torch.manual_seed(0)
    net = torch.compile(Net(16).eval(), backend="aot_eager")
    with torch.no_grad():
        for step in range(5):
            print(f"{step}: {net(torch.randn(4, 16)).sum().item():.4f}")


main()
