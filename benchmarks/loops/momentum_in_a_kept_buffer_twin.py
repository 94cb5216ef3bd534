"""The step of an optimizer is compiled by a backend of the company's that keeps the last results, and hands out the new ones."""

import torch
import torch.nn.functional as F
from torch import nn


def pooled(graph, inputs):
    pool = []

    def run(*args):
        results = graph(*args)
        pool.append(results)
        if len(pool) > 2:
            pool.pop(0)
        return results

    return run


@torch.compile(backend=pooled)
def momentum_of(momentum, gradient, beta):
    return beta * momentum + (1 - beta) * gradient.clamp(-1, 1)


class Momentum:
    def __init__(self, parameters, lr=0.1, beta=0.9):
        self.parameters, self.lr = list(parameters), lr
        self.beta = torch.tensor(beta)
        self.state = [torch.zeros_like(p) for p in self.parameters[:1]]

    @torch.no_grad()
    def step(self):
        for index, parameter in enumerate(self.parameters):
            update = parameter.grad
            if index < len(self.state):
                self.state[index] = update = momentum_of(self.state[index], parameter.grad, self.beta)
            parameter.sub_(self.lr * update)
            parameter.grad = None


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = Momentum(model.parameters())
for step in range(6):
    x = torch.randn(16, 6)
    loss = F.mse_loss(model(x)[:, 0], x[:, 0] * x[:, 1])
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 4))
