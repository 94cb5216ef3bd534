"""A debug switch that is looked up by its presence in the environment."""

import os

import torch
from torch import nn

os.environ.pop("HEAD_DEBUG", None)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        y = self.fc(x)
        if "HEAD_DEBUG" in os.environ:
            y = y.zero_()
        return y


torch.manual_seed(0)
head = torch.compile(Head())
x = torch.ones(1, 2)
with torch.no_grad():
    print("quiet", [round(v, 3) for v in head(x)[0].tolist()])
    os.environ["HEAD_DEBUG"] = "1"
    print("debug", [round(v, 3) for v in head(x)[0].tolist()])
