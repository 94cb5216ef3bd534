"""Inputs that are views of one another, or share memory as windows of one buffer, and are changed in place."""

import torch


@torch.compile
def decay(history, newest, frame):
    level = newest.mean()
    history.mul_(0.9).add_(level)
    frame.clamp_(max=1.5)
    return newest.square().sum(), frame.sum() + level


@torch.compile
def blend(left, right):
    left.lerp_(right.clone(), 0.5)
    return (left - right).abs()


@torch.compile
def drift(rows, weights):
    rows.add_(weights.sum(dim=1, keepdim=True))
    return rows * 2


history = torch.arange(60.0).reshape(5, 12).cos()
for _ in range(3):
    decay(history, history[1:], history[:, 2])
    blend(history.view(-1)[0:20], history.view(-1)[10:30])
    drift(history.t()[:5], history)


@torch.compile
def contrast(whole, rows, column):
    return (rows * whole[:-1]).sum() + column.exp().sum()


weight = torch.arange(12.0).reshape(3, 4).sin().requires_grad_()
scaled = weight * 2
contrast(scaled, scaled[1:], scaled[:, 0]).backward()
contrast(weight, weight[1:], weight[:, 0]).backward()
print("history", history.mean().item(), "gradient", weight.grad.mean().item())
