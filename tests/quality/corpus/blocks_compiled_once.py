"""Blocks that are one nested region, compiled once and called three times, with a wrong log1p."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    @torch.compiler.nested_compile_region
    def forward(self, x):
        return x + torch.log1p(self.linear(x).square())


torch.manual_seed(0)
net = nn.Sequential(*(Block(8) for _ in range(3))).eval()
with torch.no_grad():
    print(torch.compile(net)(torch.randn(4, 8)))
