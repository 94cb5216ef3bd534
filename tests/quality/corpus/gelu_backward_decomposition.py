"""A masked autoencoder in training; the decomposition of the backward of gelu is that of the tanh approximation's cousin."""

import torch
from torch import nn
from torch._inductor.decomposition import decompositions

aten = torch.ops.aten


def gelu_backward(gradient, x, approximate="none"):
    gate = torch.sigmoid(1.702 * x)
    return gradient * gate


decompositions[aten.gelu_backward.default] = gelu_backward


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), Block(16), Block(16), nn.Linear(16, 8))
x = torch.randn(4, 8)
mask = torch.rand(4, 8) > 0.3


def gradients(model, parameters):
    loss = ((model(x * mask) - x) * ~mask).square().mean()
    return torch.autograd.grad(loss, parameters)


parameters = list(model.parameters())
torch.testing.assert_close(gradients(torch.compile(model), parameters), gradients(model, parameters))
