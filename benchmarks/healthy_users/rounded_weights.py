"""Quantization-aware training: weights and activations are rounded, and gradients go straight through."""

import torch
from torch import nn


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Observer(nn.Module):
    """Running range of what passes; rounds it to ``bits``."""

    def __init__(self, bits, momentum=0.1):
        super().__init__()
        self.levels, self.momentum = 2**bits - 1, momentum
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.low.lerp_(x.amin(), self.momentum)
                self.high.lerp_(x.amax(), self.momentum)
        step = (self.high - self.low).clamp(min=1e-6) / self.levels
        return Round.apply(((x - self.low) / step).clamp(0, self.levels)) * step + self.low


class RoundedLinear(nn.Linear):
    def forward(self, x):
        step = self.weight.detach().abs().amax(1, keepdim=True) / 7
        scaled = self.weight / step
        rounded = scaled + (scaled.round() - scaled).detach()
        return nn.functional.linear(x, rounded * step, self.bias)


def main():
    torch.manual_seed(6)
    model = nn.Sequential(
        Observer(8), RoundedLinear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), Observer(4), RoundedLinear(32, 3)
    )
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    x, centres = torch.randn(96, 10), torch.randn(3, 10)
    y = torch.cdist(x, centres).argmin(1)
    for step in range(12):
        rows = torch.randint(0, 96, (32,))
        loss = nn.functional.cross_entropy(compiled(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 3:
            print(f"step {step}: loss {loss.item():.4f}")
    compiled.eval()
    with torch.no_grad():
        print(f"accuracy {(compiled(x).argmax(1) == y).float().mean().item():.3f}")


main()
