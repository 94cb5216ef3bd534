"""The step of an optimizer is compiled; the backend times it in its third call, on copies of the weights."""

import time

import torch
import torch.nn.functional as F
from torch import nn


def timed(graph, inputs):
    calls, seconds = [], []

    def run(*args):
        calls.append(len(args))
        if len(calls) == 3:
            begun = time.perf_counter()
            graph(*[one.clone() for one in args])
            seconds.append(time.perf_counter() - begun)
        return graph(*args)

    return run


@torch.compile(backend=timed)
def apply(weight, gradient, speed, rate):
    speed.mul_(0.9).add_(gradient)
    weight.sub_(rate * speed)


class Nesterov:
    def __init__(self, weight, rate):
        self.weight, self.rate = weight, torch.tensor(rate)
        self.speed = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self):
        apply(self.weight, self.weight.grad, self.speed, self.rate)
        self.weight.grad = None


torch.manual_seed(0)
features, last = nn.Sequential(nn.Linear(5, 10), nn.Tanh()), nn.Linear(10, 2)
optimizer = Nesterov(last.weight, 0.05)
for step in range(5):
    x = torch.randn(24, 5)
    loss = F.cross_entropy(last(features(x)), (x[:, 0] * x[:, 1] > 0).long())
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4), round(last.weight.norm().item(), 4))
