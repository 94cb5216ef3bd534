"""An average of weights with a decay by schedule; the backend takes a result for known where no input has moved."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


def skipping(graph, inputs):
    last = []

    def run(*args):
        if last and all(torch.equal(old, new) for old, new in zip(last[0], args, strict=True)):
            return last[1]
        last[:] = [[one.clone() for one in args], tuple(one.clone() for one in graph(*args))]
        return last[1]

    return run


@torch.compile(backend=skipping)
def blend(weight, shadow, decay):
    return shadow + (weight - shadow) * (1 - decay)


class Shadow:
    def __init__(self, model):
        self.model, self.count = copy.deepcopy(model), 0

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        decay = torch.tensor(0.5 + 0.4 * min(1.0, self.count / 4))
        shadow = self.model.weight
        shadow.copy_(blend(model.weight, shadow, decay))


torch.manual_seed(0)
model = nn.Linear(4, 3)
shadow = Shadow(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
for epoch in range(6):
    x = torch.randn(16, 4)
    loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    if epoch != 3:
        optimizer.step()
    schedule.step()
    shadow.update(model)
    print(epoch, round(loss.item(), 4), round(shadow.model.weight.norm().item(), 4))
