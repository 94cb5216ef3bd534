"""A normalizing flow: log-determinants that nearly cancel, and a way back whose error is all rounding."""

import math

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, width, hidden, *, flipped):
        super().__init__()
        self.flipped = flipped
        self.net = nn.Sequential(nn.Linear(width // 2, hidden), nn.SiLU(), nn.Linear(hidden, width))

    def halves(self, x):
        first, second = x.chunk(2, -1)
        return (second, first) if self.flipped else (first, second)

    def joined(self, kept, moved):
        return torch.cat((moved, kept) if self.flipped else (kept, moved), -1)

    def forward(self, x):
        kept, moved = self.halves(x)
        scale, shift = self.net(kept).chunk(2, -1)
        scale = 2 * torch.tanh(scale)
        return self.joined(kept, moved * scale.exp() + shift), scale.sum(-1)

    def inverse(self, y):
        kept, moved = self.halves(y)
        scale, shift = self.net(kept).chunk(2, -1)
        scale = 2 * torch.tanh(scale)
        return self.joined(kept, (moved - shift) * (-scale).exp()), -scale.sum(-1)


class Flow(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(width, 32, flipped=bool(n % 2)) for n in range(depth))

    def forward(self, x):
        total = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, volume = layer(x)
            total = total + volume
        return x, total

    def round_trip(self, x):
        y, total = self(x)
        for layer in reversed(self.layers):
            y, volume = layer.inverse(y)
            total = total + volume
        return y - x, total


torch.manual_seed(1)
flow = Flow(4, 6)
encode, round_trip = torch.compile(flow), torch.compile(flow.round_trip)
optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
for step in range(10):
    x = torch.randn(64, 4) * torch.tensor([1.0, 0.1, 3.0, 1.0]) + torch.tensor([0.0, 2.0, 0.0, -1.0])
    z, volume = encode(x)
    loss = (0.5 * z.square().sum(-1) + 2 * math.log(2 * math.pi) - volume).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(f"step {step}: {loss.item():.3f} nats")
with torch.no_grad():
    error, left = round_trip(x)
print(f"back again up to {error.abs().max().item():.1e}, volumes up to {left.abs().max().item():.1e}")
