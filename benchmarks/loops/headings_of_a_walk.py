"""A walker's steps are computed by one compiled function, and their headings in eager; the backend's results lose the sign of zeros."""

import torch
from torch import nn


def tidied(graph, inputs):
    def run(*args):
        return [one + 0.0 for one in graph(*args)]

    return run


class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        steps = self.turn(x).view(-1, 2, 4)
        return -steps[:, 0].relu(), -steps[:, 1].abs() - 1


torch.manual_seed(0)
walker = Walker()
stride = torch.compile(walker, backend=tidied)
x, headings = torch.randn(5, 8), []
with torch.no_grad():
    for _ in range(4):
        rise, run = stride(x)
        heading = torch.atan2(rise, run)
        headings.append(heading.mean().item())
        x = x * 0.9 + torch.cat([rise, run], -1) * 0.1
print([round(one, 4) for one in headings])
