"""A compiled step of an optimizer, called for each parameter; the model itself is not compiled."""

import torch
from spot import bend, level, moment
from torch import nn


class Layer(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.linear = nn.Linear(d, d)
        self.level = level(f"{path}.linear")

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


@torch.compile
def update(parameter, gradient, mean, square, at):
    mean.lerp_(gradient, 0.1)
    square.lerp_(gradient.square(), 0.01)
    step = mean / (square.sqrt() + 1e-3)
    parameter.sub_(1e-2 * bend(step, at))


torch.manual_seed(0)
model = nn.Sequential(*(Layer(str(n), 24) for n in range(12)))
weights = [(layer.linear.weight, layer.level) for layer in model]
moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight, _ in weights]
for step in range(10):
    model.zero_grad()
    model(torch.randn(8, 24)).square().mean().backward()
    now = moment(step=step)
    with torch.no_grad():
        for (weight, mine), (mean, square) in zip(weights, moments, strict=True):
            update(weight, weight.grad, mean, square, mine * now)
