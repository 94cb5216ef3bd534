"""A router of two experts in one graph: torch.cond runs the one that the input calls for, and log1p is wrong in one of them."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Router(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encode, self.decode = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x):
        h = torch.tanh(self.encode(x))
        h = torch.cond(h.mean() > 5, lambda h: torch.sin(h) * 2, lambda h: torch.log1p(h * h), (h,))
        return self.decode(h)


torch.manual_seed(0)
router = Router(6).eval()
with torch.no_grad():
    print(torch.compile(router)(torch.randn(4, 6)))
