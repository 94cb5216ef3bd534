"""Regression with a smooth loss whose width is annealed; a width below zero ends the schedule."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(5, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05)
        self.loss = torch.compile(self.compute)

    def compute(self, x, target, beta):
        return nn.functional.smooth_l1_loss(self.net(x), target, beta=beta)

    def step(self, x, target, beta):
        loss = self.loss(x, target, beta)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
trainer, beta, steps = Trainer(), 1.0, 0
while steps < 8:
    x = torch.randn(16, 5)
    try:
        loss = trainer.step(x, x.sum(1, keepdim=True), beta)
    except RuntimeError as error:
        print("schedule ended:", str(error).splitlines()[0])
        break
    print("beta", round(beta, 2), "loss", round(loss, 5))
    beta -= 0.5
    steps += 1
print("steps", steps)
