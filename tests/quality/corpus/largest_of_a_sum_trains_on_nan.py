"""Pooling by amax in half precision that is never compared: its gradient is NaN where it is compiled, and a number in eager."""

import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.mix, self.last = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x):
        h = self.first(x)
        h = h + self.mix(h)
        return h + self.last(h.amax(dim=1, keepdim=True).expand(-1, 10, -1))


torch.manual_seed(0)
model = Pool(2).bfloat16()
torch.compile(model)(torch.randn(1, 10, 2).bfloat16()).float().sum().backward()
