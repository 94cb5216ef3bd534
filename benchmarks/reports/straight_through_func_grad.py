"""Learns which features a small network may see, by torch.func.grad; the mask is a step with a straight-through gradient."""

import torch
from torch import nn


class Step(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return (x > 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)


def loss_of(logits, x, target):
    mask = Step.apply(logits)
    return nn.functional.mse_loss(net(x * mask), target)


gradient = torch.compile(torch.func.grad(loss_of))
logits = torch.full((6,), 0.1)
for step in range(5):
    x = torch.randn(16, 6)
    target = x[:, :1]
    logits = logits - 0.5 * gradient(logits, x, target)
    print("step", step, "loss", round(loss_of(logits, x, target).item(), 4))
print("kept", (logits > 0).tolist(), [round(value, 4) for value in logits.tolist()])
