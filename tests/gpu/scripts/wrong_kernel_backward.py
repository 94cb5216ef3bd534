"""A squared ReLU with a backward of its own: only the kernel of the backward holds the relu that is generated wrong."""

import sys

import torch
import torch._inductor.config as config
from torch import nn

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class SquaredReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0).square()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * gradient * torch.relu(x)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.down(SquaredReLU.apply(self.up(x)))


device = sys.argv[1]
torch.manual_seed(0)
model = MLP().to(device)
loss = torch.compile(model)(torch.randn(8, 16, device=device)).square().mean()
loss.backward()
print(loss.item())
