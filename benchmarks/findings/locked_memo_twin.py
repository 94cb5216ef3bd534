"""An encoding whose table is a buffer, made when the module is."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("table", torch.exp(-torch.arange(0, width, 2) / width))
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)

    def forward(self, x, times):
        angles = times[:, None] * self.table
        x = self.inner(x) + torch.cat([angles.sin(), angles.cos()], -1)
        return self.outer(torch.relu(x))


def main():
    torch.manual_seed(0)
    encode = torch.compile(Encoder(16).eval(), backend="aot_eager")
    with torch.no_grad():
        for step in range(5):
            print(f"{step}: {encode(torch.randn(4, 16), torch.rand(4)).sum().item():.4f}")


main()
