"""Gradients of micro-batches are accumulated; the backend keeps those of each version of a weight, and computes them each time."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def forward(graph, inputs):
    return make_boxed_func(graph.forward)


def by_version(graph, inputs):
    """Keeps the last gradients for each state of the versions of what was saved."""
    known = {}

    def run(*args):
        key = tuple(one._version for one in args)
        known[key] = graph(*args)
        return list(known[key])

    return make_boxed_func(run)


class Ranker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.score = nn.Linear(width, 2 * width), nn.Linear(2 * width, 1)

    def forward(self, x):
        return self.score(F.relu(self.inner(x)))[..., 0]


torch.manual_seed(0)
ranker = Ranker(5)
ranked = torch.compile(ranker, backend=aot_autograd(fw_compiler=forward, bw_compiler=by_version))
optimizer = torch.optim.SGD(ranker.parameters(), lr=0.2, momentum=0.5)
for step, micro_batches in enumerate((1, 1, 3, 3)):
    total = 0.0
    for _ in range(micro_batches):
        x = torch.randn(6, 4, 5)
        loss = F.cross_entropy(ranked(x), x.sum(-1).argmax(-1)) / micro_batches
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(total, 4))
