"""A pipeline of one step: the gradients of a batch are computed after the weights have moved on, in the storage that both graphs read."""

import torch
import torch.nn.functional as F
from torch import nn


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return x + torch.tanh(torch.sigmoid(self.scale))


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(x)[:, 0]


class Late:
    """Descends by the gradients of the step before, through `data`: no version moves."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.waiting = list(parameters), rate, None

    def step(self):
        if self.waiting is not None:
            for parameter, gradient in zip(self.parameters, self.waiting, strict=True):
                parameter.data.sub_(gradient, alpha=self.rate)

    def take(self):
        self.waiting = [p.grad for p in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None


torch.manual_seed(0)
gate, head = Gate(6), Head(6)
gated = torch.compile(gate)
pipeline = Late(gate.parameters(), rate=2.0)
for step in range(4):
    x = torch.randn(16, 6)
    loss = F.mse_loss(head(gated(x)), x.sum(1))
    pipeline.step()
    loss.backward()
    pipeline.take()
    print(step, round(loss.item(), 4), round(pipeline.waiting[0].norm().item(), 4))
