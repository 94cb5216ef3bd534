"""A layer whose noise must not move the script's random numbers: it forks their state around each draw."""

import torch
from torch import nn


class Jitter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        with torch.random.fork_rng():
            noise = torch.rand_like(x)
        return x * (1 + 0.1 * (noise - 0.5)).relu()


def main():
    torch.manual_seed(0)
    layer = torch.compile(Jitter(12).eval(), backend="aot_eager")
    with torch.no_grad():
        for step in range(5):
            y = layer(torch.randn(4, 12))
            print(f"{step}: {tuple(y.shape)} {'finite' if y.isfinite().all() else 'infinite'}")


main()
