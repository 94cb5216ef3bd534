"""A wrong relu in the fifth call, behind a cache whose first step has other strides than in eager: the values count."""

import torch
import torch._inductor.config
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Cache(nn.Module):
    def __init__(self, width: int = 16, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.keys = nn.Linear(width, width)

    def forward(self, x, past):
        keys = self.keys(x).view(*x.shape[:2], self.heads, -1).transpose(1, 2)
        return torch.cat([past, keys], dim=-2)


@torch.compile
def score(keys):
    return torch.relu(keys).sum(-1)


torch.manual_seed(0)
cache, past = torch.compile(Cache(), dynamic=True), torch.tensor([])
with torch.no_grad():
    for _ in range(4):
        past = cache(torch.randn(2, 5, 16), past)
    print(score(past).mean())
