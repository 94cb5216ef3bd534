"""A relu whose generated kernel is wrong, in a small classifier. The script compares nothing."""

import sys

import torch
import torch._inductor.config as config
from torch import nn

# PyTorch's own switches for tests: a generated relu adds one. On a real fault there are no such lines.
config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
print(torch.compile(model)(torch.randn(8, 16, device=device)).shape)
