"""Two heads on one trunk, each loss weighed by the norm of its gradient at the trunk; no buffer of a backward is donated, so that it may run twice."""

import torch
import torch._functorch.config
import torch.nn.functional as F
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, width), nn.GELU(), nn.Linear(width, width), nn.Tanh())
        self.price = nn.Linear(width, 1)
        self.kind = nn.Linear(width, 4)

    def forward(self, x):
        shared = self.trunk(x)
        return self.price(shared)[:, 0], self.kind(shared)


def weights(losses, parameter):
    norms = []
    for loss in losses:
        (slope,) = torch.autograd.grad(loss, parameter, retain_graph=True)
        norms.append(slope.norm())
    mean = sum(norms) / len(norms)
    return [(mean / (norm + 1e-6)).detach() for norm in norms]


torch._functorch.config.donated_buffer = False
torch.manual_seed(2)
model = TwoHeads(24)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(5):
    x = torch.randn(32, 12)
    price, kind = compiled(x)
    losses = [F.mse_loss(price, x[:, 0]), F.cross_entropy(kind, x[:, 1:5].argmax(1))]
    factors = weights(losses, model.trunk[2].weight) if step > 2 else [1.0, 1.0]
    total = sum(factor * loss for factor, loss in zip(factors, losses, strict=True))
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print(step, round(total.item(), 4))
