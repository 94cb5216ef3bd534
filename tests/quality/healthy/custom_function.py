"""A straight-through estimator: a backward of one's own."""

import torch

torch.manual_seed(0)


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.sign(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1)


compiled = torch.compile(lambda x: Straight.apply(x) * x.exp())
compiled(torch.randn(32, requires_grad=True)).sum().backward()
