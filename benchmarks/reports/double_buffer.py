"""A wave on a string: the state before is kept beside the state, both in place."""

import torch
from torch import nn


class Wave(nn.Module):
    def __init__(self, points):
        super().__init__()
        self.speed = nn.Parameter(torch.tensor(0.3), requires_grad=False)
        self.register_buffer("now", torch.sin(torch.linspace(0, 3.14159, points)).repeat(2, 1))
        self.register_buffer("before", torch.zeros(2, points))

    def forward(self, push):
        bend = torch.roll(self.now, 1, dims=1) + torch.roll(self.now, -1, dims=1) - 2 * self.now
        self.before[:, :] = self.now[:, :]
        self.now.add_(self.speed * bend + push)
        return self.now.square().sum()

    @torch.no_grad()
    def velocity(self):
        return (self.now - self.before).abs().sum().item()


def main():
    torch.manual_seed(0)
    wave = Wave(16)
    step = torch.compile(wave)
    with torch.no_grad():
        for t in range(4):
            energy = step(0.01 * torch.randn(2, 16))
            print(f"t={t}: energy {energy.item():.4f}, velocity {wave.velocity():.4f}")


if __name__ == "__main__":
    main()
