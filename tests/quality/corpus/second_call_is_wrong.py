"""The first call is right. The second one has another flag, is compiled anew, and takes a path on which log1p is wrong."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(6, 4)

    def forward(self, x, *, as_counts=False):
        h = self.project(x)
        if as_counts:
            return torch.log1p(h.exp()).sum(-1)
        return torch.softmax(h, -1).amax(-1)


torch.manual_seed(0)
scores = Scores().eval()
fast = torch.compile(scores)
with torch.no_grad():
    x = torch.randn(5, 6)
    print(fast(x))
    print(fast(x, as_counts=True))
