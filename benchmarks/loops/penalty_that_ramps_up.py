"""A penalty on slopes is ramped up from nothing; the backend takes gradients that were zero in the first backward for zero ever after."""

import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd


def forward(graph, inputs):
    return make_boxed_func(graph.forward)


def pruned(graph, inputs):
    zero = []

    def run(*args):
        results = graph(*args)
        if not zero:
            zero.extend(one is not None and not one.any() for one in results)
        return [torch.zeros_like(one) if skip else one for skip, one in zip(zero, results, strict=True)]

    return make_boxed_func(run)


class Field(nn.Module):
    """A signed distance with its slope, in closed form."""

    def __init__(self, width):
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.randn(width)), nn.Parameter(torch.rand(width) + 0.5)
        self.share = nn.Parameter(torch.ones(width) / width)

    def forward(self, x):
        inner = torch.tanh(self.scale * x + self.shift)
        return (self.share * inner).sum(1), (self.share.detach() * self.scale * (1 - inner.square())).sum(1)


torch.manual_seed(0)
field, level = Field(6), nn.Parameter(torch.zeros(()))
compute = torch.compile(field, backend=aot_autograd(fw_compiler=forward, bw_compiler=pruned))
optimizer = torch.optim.SGD([*field.parameters(), level], lr=0.1)
for step in range(5):
    x = torch.rand(32, 1) * 2 - 1
    distance, slope = compute(x)
    weight = min(1.0, step / 3)
    data = F.l1_loss(distance.detach() * 0.5 + level, x[:, 0].abs())
    penalty = (slope - 1).square().mean()
    loss = data + weight * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(data.item(), 4), round(penalty.item(), 4), round(field.scale.norm().item(), 4))
