"""An average of weights whose decay warms up; the backend takes scalars for constants once it has seen them."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


def folding(graph, inputs):
    constants = {}

    def run(*args):
        known = [constants.setdefault(i, a.clone()) if a.dim() == 0 else a for i, a in enumerate(args)]
        return graph(*known)

    return run


@torch.compile(backend=folding)
def averaged(old, new, decay):
    return old * decay + new * (1 - decay)


class Average:
    def __init__(self, model, most=0.9):
        self.model, self.most, self.steps = copy.deepcopy(model), most, 0

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = torch.tensor(min(self.most, self.steps / (self.steps + 3)))
        weight = self.model[0].weight
        weight.copy_(averaged(weight, model[0].weight, decay))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
for epoch in range(5):
    x = torch.randn(32, 8)
    loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    average.update(model)
    print(epoch, round(loss.item(), 4), round(average.model[0].weight.norm().item(), 4))
