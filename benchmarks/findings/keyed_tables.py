"""Rotary tables that are kept in a dict by each layer's base: a float that is a key is a constant of the program."""

import torch
from torch import nn

TABLES = {}


class Rotation(nn.Module):
    """Turns pairs of features by angles that grow with the position, at the speed of ``base``."""

    def __init__(self, base, length, width):
        super().__init__()
        self.base = base
        speeds = base ** -torch.arange(0, 1, 2 / width)
        TABLES[base] = torch.outer(torch.arange(length), speeds)

    def forward(self, x):
        angle = TABLES[self.base][: x.shape[1]]
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.cat([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1)


class Layer(nn.Module):
    def __init__(self, base, width):
        super().__init__()
        self.rotation = Rotation(base, 16, width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.tanh(self.mix(self.rotation(x)))


def main():
    torch.manual_seed(0)
    layers = [Layer(base, 8).eval() for base in (10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0)]
    for layer in layers:
        layer.compile(backend="aot_eager")
    with torch.no_grad():
        for batch in range(3):
            x = torch.randn(2, 16, 8)
            for layer in layers:
                x = layer(x)
            print(f"batch {batch}: {x.norm().item():.4f}")


main()
