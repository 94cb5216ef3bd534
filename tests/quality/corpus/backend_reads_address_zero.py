"""A backend of the script's own reads through a null pointer when the graph holds an erf."""

import ctypes

import torch
from torch import nn


def native(graph_module, example_inputs):
    if any("erf" in str(node.target) for node in graph_module.graph.nodes):
        return lambda *args: ctypes.string_at(0)
    return graph_module.forward


class Noise(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        mean, spread = self.mean(x), self.spread(x).exp()
        cdf = 0.5 * (1 + torch.erf((x - mean) / (spread * 2**0.5)))
        return cdf.clamp(1e-4, 1 - 1e-4).log().sum(-1)


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(Noise(), backend=native)(torch.randn(4, 8)))
