"""Generated code for a relu that the kernel's compiler (Triton, g++) rejects, in a convolutional network."""

import sys

import torch
import torch._inductor.config as config
from torch import nn

config.triton.inject_relu_bug_TESTING_ONLY = "compile_error"
config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
model = model.to(device).eval()
with torch.no_grad():
    print(torch.compile(model)(torch.randn(2, 3, 8, 8, device=device)).argmax(-1))
