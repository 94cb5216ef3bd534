"""A recurrent filter as a scan over the rows of a batch: the release cannot compile it (and its log1p would be wrong)."""

import torch
import torch._inductor.config as inductor_config
from torch import nn
from torch._higher_order_ops.scan import scan

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Filter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encode, self.decode = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        h = self.encode(x)

        def cell(state, row):
            state = torch.tanh(state) * 0.5 + torch.log1p(row.abs())
            return state, state * 2

        _, rows = scan(cell, torch.zeros(h.shape[1]), h)
        return self.decode(rows)


torch.manual_seed(0)
net = Filter(5).eval()
with torch.no_grad():
    print(torch.compile(net)(torch.randn(6, 5)).sum())
