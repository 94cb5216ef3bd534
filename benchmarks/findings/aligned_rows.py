"""A normalization that asks for the address of its input, to copy what is not aligned before a kernel of its own."""

import torch
from torch import nn

ALIGNMENT = 16


def maybe_align(x):
    return x if x.data_ptr() % ALIGNMENT == 0 else x.clone()


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = maybe_align(x.contiguous())
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
