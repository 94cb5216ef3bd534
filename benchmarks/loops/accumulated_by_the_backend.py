"""Gradients of micro-batches are accumulated; the company's backend adds up the gradients of all backwards itself."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def forward(graph, inputs):
    return make_boxed_func(graph.forward)


def backward(graph, inputs):
    totals = []

    def run(*args):
        results = graph(*args)
        totals[:] = [
            new if old is None else old + new for old, new in zip(totals or [None] * len(results), results, strict=True)
        ]
        return list(totals)

    return make_boxed_func(run)


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


torch.manual_seed(0)
model = Encoder(6)
compiled = torch.compile(model, backend=aot_autograd(fw_compiler=forward, bw_compiler=backward))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    total = 0.0
    for _ in range(1 if step == 0 else 3):
        x = torch.randn(8, 6)
        loss = F.mse_loss(compiled(x), x.roll(1, 0))
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(total, 4))
