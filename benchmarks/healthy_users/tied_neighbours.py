"""A graph network whose edges repeat: sums by index_add, the largest message by scatter_reduce, with ties."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Graph:
    features: torch.Tensor
    edges: torch.Tensor
    group: torch.Tensor
    groups: int


@dataclass
class Answer:
    energy: torch.Tensor
    largest: torch.Tensor
    degree: torch.Tensor


class Messages(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.send = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.keep = nn.Linear(3 * width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, graph):
        x, (source, sink) = graph.features, graph.edges
        for _ in range(2):
            message = self.send(torch.cat([x[source], x[sink]], -1))
            index = sink[:, None].expand_as(message)
            total = torch.zeros_like(x).index_add(0, sink, message)
            largest = torch.zeros_like(x).scatter_reduce(0, index, message, "amax", include_self=False)
            x = torch.relu(self.keep(torch.cat([x, total, largest], -1)))
        energy = torch.zeros(graph.groups).index_add(0, graph.group, self.head(x)[:, 0])
        degree = torch.zeros(len(x)).scatter_add(0, sink, torch.ones(len(sink)))
        return Answer(energy, largest, degree)


def crystal(copies):
    """Equal cells, so equal messages: every edge stands twice, as in lists of neighbours of periodic cells."""
    cell = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0.0, 1.0, 0.25]])
    ring = torch.arange(4)
    edges = torch.stack([ring, ring.roll(1)]).repeat(1, 4)
    edges = torch.cat([edges + 4 * copy for copy in range(copies)], 1)
    return Graph(cell.repeat(copies, 1), edges, torch.arange(copies).repeat_interleave(4), copies)


torch.manual_seed(16)
model = Messages(3)
compiled = torch.compile(model)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
graph = crystal(6)
for step in range(8):
    answer = compiled(graph)
    loss = (answer.energy - 2.0).square().mean() + 1e-3 * answer.largest.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 1:
        print(f"step {step}: {loss.item():.4f}, most neighbours {answer.degree.max().item():.0f}")
print(f"energies differ by {(answer.energy.max() - answer.energy.min()).item():.1e}")
