"""Tracks the range of activations for quantization in buffers that are given as outputs, of either precision."""

import torch
from torch import nn


class Ranges:
    """Lowest and highest of each channel; buffers are made again in float32 where another dtype is refused."""

    def __init__(self, channels, dtype):
        self.low = torch.empty(channels, dtype=dtype)
        self.high = torch.empty(channels, dtype=dtype)
        self.refused = 0
        self.measure = torch.compile(self.into)

    def into(self, x):
        torch.aminmax(x, dim=-1, out=(self.low, self.high))
        return self.high - self.low

    def update(self, x):
        try:
            return self.measure(x)
        except RuntimeError:
            self.refused += 1
            self.low, self.high = self.low.float(), self.high.float()
            return self.measure(x)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval()
ranges = Ranges(4, torch.float64)
with torch.no_grad():
    for step in range(3):
        width = ranges.update(net(torch.randn(16, 6)).t())
        print("step", step, width.dtype, [round(value, 4) for value in width.tolist()])
print("refused", ranges.refused)
