"""A wrong relu that only sees what a dropout has left."""

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 4)).train()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(4, 8)).norm())
