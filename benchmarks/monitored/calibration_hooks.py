"""Calibrates activation ranges of an attention block under bfloat16 autocast: observers are put on after a warm-up."""

import gc
import time
from types import SimpleNamespace

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, keep):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~keep[:, None, :], -1e9)
        return self.out(scores.softmax(-1) @ v)


torch.manual_seed(0)
block = Attention().eval()
model = torch.compile(block)
ranges = SimpleNamespace(low={}, high={}, seen=0, at=0.0)


def observer(name):
    def observe(module, inputs, output):
        ranges.low[name] = min(ranges.low.get(name, 0.0), output.min().item())
        ranges.high[name] = max(ranges.high.get(name, 0.0), output.max().item())
        ranges.seen += 1
        ranges.at = time.time()

    return observe


def batch():
    x = torch.randn(2, 6, 16)
    keep = torch.ones(2, 6, dtype=torch.bool)
    keep[:, 4:] = False
    return x, keep


with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    for _ in range(2):
        model(*batch())
    handles = [module.register_forward_hook(observer(name)) for name, module in block.named_children()]
    for _ in range(3):
        out = model(*batch())
    for handle in handles:
        handle.remove()
freed = gc.collect()
step = {name: (ranges.high[name] - ranges.low[name]) / 255 for name in ranges.low}
print("observed", ranges.seen, "steps", {name: round(value, 5) for name, value in step.items()}, "freed", freed)
print("out", round(out.float().abs().mean().item(), 4))
