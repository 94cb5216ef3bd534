"""A value is printed in the middle, so there are two graphs; the second one is wrong."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Estimator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 12), nn.Linear(12, 1)

    def forward(self, x):
        h = torch.tanh(self.encode(x))
        print("mean activation", h.mean().item())
        rate = nn.functional.softplus(self.decode(h)).squeeze(-1)
        return torch.log1p(rate) / (1 + rate)


torch.manual_seed(0)
estimator = Estimator()
x = torch.randn(8, 6)
torch.testing.assert_close(torch.compile(estimator)(x), estimator(x))
