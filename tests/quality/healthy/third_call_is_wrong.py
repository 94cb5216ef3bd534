"""A backend that keeps the outputs of all calls, and hands out those of the call."""

import torch


def recycling(graph, inputs):
    kept = []

    def run(*args):
        kept.append(graph(*args))
        return kept[-1]

    return run


@torch.compile(backend=recycling)
def step(x, scale):
    return (x * scale).tanh()


torch.manual_seed(0)
x = torch.randn(8)
for n in range(6):
    x = step(x, torch.tensor(1.0 + n))
print("mean", x.mean().item())
