"""A function of the user's own compresses gradients by a logarithm, whose kernel is wrong."""

import torch
import torch._inductor.config as inductor_config
from torch import nn

inductor_config.cpp.inject_log1p_bug_TESTING_ONLY = "accuracy"


class Compress(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.sign() * torch.log1p(gradient.abs())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 10), nn.Linear(10, 3)

    def forward(self, x):
        return self.second(Compress.apply(torch.tanh(self.first(x))))


def step(net, model):
    net.zero_grad()
    model(torch.ones(4, 5)).logsumexp(-1).sum().backward()
    return [p.grad.clone() for p in net.parameters()]


torch.manual_seed(0)
net = Net()
torch.testing.assert_close(step(net, torch.compile(net)), step(net, net))
