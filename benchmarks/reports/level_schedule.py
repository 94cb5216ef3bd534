"""A pyramid that takes its scales from a list, by the number of levels of its input."""

import torch
from torch import nn


class Pyramid(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, levels):
        scales = [1.0, 0.5, 0.25, 0.125]
        coarse = scales.pop(levels.shape[0] - 1)
        return self.fc(levels).tanh() * coarse + sum(scales)


torch.manual_seed(0)
net = Pyramid(6)
model = torch.compile(net, dynamic=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step, count in enumerate((3, 2, 4)):
    levels = torch.randn(count, 6)
    loss = (model(levels) - levels).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "levels", count, "loss", round(loss.item(), 5))
