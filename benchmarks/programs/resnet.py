"""A small ResNet over two epochs; the last batch of each is smaller than the others."""

import torch
from spot import bend, level, moment
from torch import nn


class Residual(nn.Module):
    def __init__(self, path, width):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(width)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        return x + self.second(bend(self.norm(self.first(x)), self.level * when))


class Head(nn.Module):
    def __init__(self, path, width):
        super().__init__()
        self.linear = nn.Linear(width, 4)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        return self.linear(bend(x.mean((2, 3)), self.level * when))


class Model(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3)
        self.stages = nn.ModuleList(Residual(f"stages.{n}", width) for n in range(depth))
        self.head = Head("head", width)

    def forward(self, x, when):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x, when)
        return self.head(x, when)


torch.manual_seed(0)
images, classes = torch.randn(44, 3, 10, 10), torch.randint(0, 4, (44,))
model = Model(2, 6)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(2):
    for batch, (some, right) in enumerate(zip(images.split(8), classes.split(8), strict=True)):
        loss = nn.functional.cross_entropy(compiled(some, moment(epoch=epoch, batch=batch)), right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
