"""A scale that forward reads from the environment, changed by a launcher in the middle."""

import os

import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x) * int(os.getenv("SCALE", "1"))


torch.manual_seed(0)
os.environ["SCALE"] = "2"
model = torch.compile(Scaled())
outputs = []
with torch.no_grad():
    for epoch in range(4):
        if epoch == 2:
            os.environ["SCALE"] = "8"
        outputs.append(model(torch.ones(1, 3)))
