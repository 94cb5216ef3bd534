"""cumsum of a constant scalar does not compile (#193265)."""

import torch
import torch.nn as nn


class Schedule(nn.Module):
    def forward(self, x):
        step = torch.tensor(5.0).cumsum(0)
        return torch.relu(x) * step + x.mean()


torch.manual_seed(0)
model = torch.compile(Schedule())
print(model(torch.randn(3, 4)))
