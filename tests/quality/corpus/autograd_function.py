"""The fault lies in a torch.autograd.Function: no source text names that node of the Dynamo graph, so aten is reduced."""

import torch
import torch._inductor.config as inductor_config

inductor_config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.relu(x) + 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def f(x):
    return torch.sin(Clipped.apply(torch.cos(x))) * 2


torch.manual_seed(0)
torch.compile(f)(torch.randn(4, 8, requires_grad=True)).sum()
