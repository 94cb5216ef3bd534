"""The same with the warning given once, where the layer is made."""

import warnings

import torch
from torch import nn


class ClippedFeed(nn.Module):
    def __init__(self, width, clip=None, bound=None):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if clip is not None:
            warnings.warn("clip is deprecated, use bound", DeprecationWarning, stacklevel=2)
            bound = clip
        self.bound = bound

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        return x + self.down(hidden.clamp(max=self.bound))


def main():
    torch.manual_seed(0)
    feed = ClippedFeed(8, clip=1.0)
    optimizer = torch.optim.SGD(feed.parameters(), lr=0.05)
    compiled = torch.compile(feed, backend="aot_eager")
    for step in range(4):
        x = torch.randn(12, 8)
        loss = (compiled(x) - x.roll(1, -1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


main()
