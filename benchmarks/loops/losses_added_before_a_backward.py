"""The losses of several micro-batches are added before one backward; the backend keeps activations of the last two forwards."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

SLOTS = 2


def in_a_ring(graph, inputs):
    slots, calls = [{} for _ in range(SLOTS)], []

    def run(*args):
        result, *saved = graph(*args)
        slot = slots[len(calls) % SLOTS]
        calls.append(len(saved))
        for index, one in enumerate(saved):
            slot.setdefault(index, torch.empty_like(one)).data.copy_(one)
        return [result, *slot.values()]

    return make_boxed_func(run)


def backward(graph, inputs):
    return make_boxed_func(graph.forward)


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.outer(F.softplus(self.inner(x)))[:, 0]


torch.manual_seed(0)
scorer = Scorer(4)
scored = torch.compile(scorer, backend=aot_autograd(fw_compiler=in_a_ring, bw_compiler=backward))
optimizer = torch.optim.Adam(scorer.parameters(), lr=0.02)
for step, micro_batches in enumerate((1, 2, 3, 4)):
    loss = torch.zeros(())
    for _ in range(micro_batches):
        x = torch.randn(8, 4)
        loss = loss + F.mse_loss(scored(x), x.abs().sum(1)) / micro_batches
    loss.backward()
    norm = torch.stack([p.grad.norm() for p in scorer.parameters()]).norm()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(loss.item(), 4), round(norm.item(), 4))
