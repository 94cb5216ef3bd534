"""A loss on counts, compiled with the model inside; log1p is wrong, and nothing is compared."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class RMSLE(nn.Module):
    def forward(self, prediction, target):
        return (torch.log1p(nn.functional.softplus(prediction)) - torch.log1p(target)).square().mean().sqrt()


torch.manual_seed(0)
model, loss = nn.Linear(4, 1), RMSLE()


@torch.compile
def objective(x, counts):
    return loss(model(x).squeeze(-1), counts)


print(float(objective(torch.randn(8, 4), torch.randint(0, 9, (8,)).float())))
