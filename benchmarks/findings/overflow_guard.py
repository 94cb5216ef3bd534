"""Activations that are scaled down only where they overflow half precision, by a branch on their largest value."""

import torch
from torch import nn


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.down(torch.relu(self.up(x))) * 8
        if y.abs().max() > 4.0:
            y = y.clamp(-4.0, 4.0)
        return x + y


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.feeds = nn.ModuleList([Feed(width) for _ in range(depth)])

    def forward(self, x):
        for feed in self.feeds:
            x = feed(x)
        return x


def main():
    torch.manual_seed(0)
    stack = Stack(8, 3)
    optimizer = torch.optim.SGD(stack.parameters(), lr=0.01)
    compiled = torch.compile(stack, backend="aot_eager")
    for step in range(4):
        x = torch.randn(5, 8)
        loss = compiled(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


main()
