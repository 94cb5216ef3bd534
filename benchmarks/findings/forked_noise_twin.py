"""A layer whose noise must not move the script's random numbers: its caller draws it from a generator of its own."""

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, noise):
        x = self.linear(x)
        return x * (1 + 0.1 * (noise - 0.5)).relu()


def main():
    torch.manual_seed(0)
    layer = torch.compile(Jitter(12).eval(), backend="aot_eager")
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for step in range(5):
            noise = torch.rand(4, 12, generator=generator)
            y = layer(torch.randn(4, 12), noise)
            print(f"{step}: {tuple(y.shape)} {'finite' if y.isfinite().all() else 'infinite'}")


main()
