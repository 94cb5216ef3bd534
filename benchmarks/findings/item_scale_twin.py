"""The same with the scale in a tensor."""

import torch
from torch import nn


class Quantized(nn.Module):
    def __init__(self, inputs, outputs, bits=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.most = 2 ** (bits - 1) - 1

    def forward(self, x):
        scale = x.abs().max() / self.most
        levels = torch.round(x / scale).clamp(-self.most, self.most)
        return nn.functional.linear(levels, self.weight) * scale


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Quantized(16, 16), Quantized(16, 16), Quantized(16, 4)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def main():
    torch.manual_seed(0)
    network = torch.compile(Network().eval(), backend="aot_eager")
    with torch.no_grad():
        for _ in range(4):
            print(f"{network(torch.randn(3, 16)).abs().sum().item():.3f}")


main()
