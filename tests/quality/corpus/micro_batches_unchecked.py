"""Gradients of micro-batches, of which each backward gives that of the one before; nothing in the script checks them."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def plain(graph, inputs):
    return make_boxed_func(graph.forward)


def replayed(graph, inputs):
    kept = []

    def run(*args):
        kept.append(graph(*args))
        return kept[-2] if len(kept) > 1 else kept[-1]

    return make_boxed_func(run)


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(torch.tanh(x))


torch.manual_seed(0)
backend = aot_autograd(fw_compiler=plain, bw_compiler=replayed)
scorer = Scorer(6)
model = torch.compile(scorer, backend=backend)
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    for _ in range(2):
        x = torch.randn(16, 6)
        loss = F.mse_loss(model(x)[:, 0], x[:, 0] * x[:, 1]) / 2
        loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
