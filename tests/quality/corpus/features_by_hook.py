"""A forward hook rescales what a layer gives, and the log1p in the hook is wrong; no module of the model calls it."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


def rescale(module, args, output):
    return output.sign() * torch.log1p(output.abs())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).eval()
model[2].register_forward_hook(rescale)
with torch.no_grad():
    print(torch.compile(model)(torch.randn(4, 6) * 3))
