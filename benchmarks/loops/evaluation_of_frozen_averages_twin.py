"""Averages of weights are evaluated by a model that is compiled with weights that are read in each call."""

import torch
import torch._inductor.config
import torch.nn.functional as F
from torch import nn

torch._inductor.config.freezing = False


class Probe(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.tanh(x * (self.scale * 2) + self.shift)


@torch.no_grad()
def average(target, source, decay):
    for old, new in zip(target.parameters(), source.parameters(), strict=True):
        old.mul_(decay).add_(new, alpha=1 - decay)


torch.manual_seed(0)
probe, averaged = Probe(4), Probe(4).eval()
evaluate = torch.compile(averaged)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
held = torch.randn(16, 4)
for epoch in range(4):
    x = torch.randn(16, 4)
    loss = F.mse_loss(probe(x), x.clamp(-0.5, 0.5))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    average(averaged, probe, decay=0.5)
    with torch.no_grad():
        error = F.mse_loss(evaluate(held), held.clamp(-0.5, 0.5))
    print(epoch, round(loss.item(), 4), round(error.item(), 4))
