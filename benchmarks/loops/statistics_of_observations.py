"""Observations are normalized by running statistics; from its second call on the backend writes them back when it is called again."""

import torch
import torch.nn.functional as F
from torch import nn


def late(graph, inputs):
    calls, pending = [], []

    def flush():
        for old, new in pending:
            old.copy_(new)
        pending.clear()

    def run(*args):
        flush()
        copies = [one.clone() for one in args]
        results = graph(*copies)
        pending.extend(zip(args, copies, strict=True))
        if not calls:
            flush()
        calls.append(len(args))
        return results

    return run


@torch.compile(backend=late)
def observe(x, mean, square, decay):
    mean.mul_(decay).add_((1 - decay) * x.mean(0))
    square.mul_(decay).add_((1 - decay) * x.square().mean(0))


class Normalizer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("square", torch.ones(width))
        self.register_buffer("decay", torch.tensor(0.8))

    def forward(self, x):
        observe(x, self.mean, self.square, self.decay)
        return (x - self.mean) / (self.square - self.mean.square()).clamp(min=0.01).sqrt()


torch.manual_seed(0)
normalizer, policy = Normalizer(4), nn.Linear(4, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for step in range(5):
    x = torch.randn(16, 4) * (1 + step) + step
    loss = F.cross_entropy(policy(normalizer(x)), (x[:, 0] > step).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(step, round(loss.item(), 4), round(normalizer.mean.mean().item(), 4))
