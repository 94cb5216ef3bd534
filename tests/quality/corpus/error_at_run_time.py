"""Compiled code raises when it runs; a training step around it."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
        self.gate = nn.ReLU()

    def forward(self, x):
        return self.gate(self.body(x) + x).mean()


torch.manual_seed(0)
head = torch.compile(Head())
head(torch.randn(4, 16)).backward()
