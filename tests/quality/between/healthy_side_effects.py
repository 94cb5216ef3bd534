"""Side effects that Dynamo gets right: attributes, counters, lists and a generator, inside and outside of what is compiled."""

import torch
from torch import nn


class Tracked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.calls, self.shapes = 0, []

    def forward(self, x):
        self.calls += 1
        self.shapes.append(tuple(x.shape))
        return self.fc(x).relu()


def rows():
    for size in (2, 2, 3):
        yield torch.ones(size, 3)


torch.manual_seed(0)
model = Tracked()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
forward = torch.compile(model)
for x in rows():
    loss = forward(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
