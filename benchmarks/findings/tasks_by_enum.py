"""A model with a head for each task, chosen by a member of an enumeration: each member is a program of its own."""

import enum

import torch
from torch import nn


class Task(enum.Enum):
    DEPTH = 1
    NORMALS = 3
    EDGES = 2
    SEGMENTS = 7
    FLOW = 4


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width), nn.GELU())
        self.scale = nn.Parameter(torch.ones(8))
        self.heads = nn.ModuleDict({task.name: nn.Linear(width, task.value) for task in Task})

    def forward(self, x, task):
        x = self.body(x) * self.scale[task.value]
        return self.heads[task.name](x)


def main():
    torch.manual_seed(0)
    model = Model(16)
    predict = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        for task in Task:
            loss = predict(torch.randn(4, 16), task).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{task.name}: {loss.item():.4f}")


main()
