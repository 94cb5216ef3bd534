"""Dropout in training: the compiled code draws from another stream."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 8)).train()
compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.randn(16, 32)).square().mean().backward()
