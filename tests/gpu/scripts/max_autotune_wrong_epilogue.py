"""Under max-autotune a relu is an epilogue in the template of a matrix product: one that is generated wrong."""

import sys

import torch
import torch._inductor.config as config
from torch import nn

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64)).to(device).eval()
compiled = torch.compile(model, mode="max-autotune-no-cudagraphs")
with torch.no_grad():
    print(compiled(torch.randn(64, 64, device=device)).sum().item())
