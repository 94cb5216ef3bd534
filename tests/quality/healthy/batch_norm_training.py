"""Batch norm in training: running statistics are changed in place at every call."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8)).train()
compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.randn(4, 3, 12, 12)).mean().backward()
print(model[1].running_mean)
