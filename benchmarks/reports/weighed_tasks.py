"""A network for several tasks: the weight of each loss is looked up by a member of an enumeration."""

import enum

import torch
from torch import nn


class Task(enum.Enum):
    DEPTH = 1
    EDGES = 2
    FLOW = 3


WEIGHTS = {Task.DEPTH: 1.0, Task.EDGES: 0.5, Task.FLOW: 4.0}


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Linear(6, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.trunk(x))).squeeze(-1)


@torch.compile
def weighted(prediction, target, task):
    return WEIGHTS[task] * (prediction - target).square().mean()


def main():
    torch.manual_seed(0)
    net = Net(16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(3):
        total = {}
        for task in Task:
            x = torch.randn(32, 6)
            loss = weighted(net(x), x[:, task.value - 1], task)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total[task.name] = round(loss.item(), 4)
        print(epoch, total)


main()
