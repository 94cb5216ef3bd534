"""Meta-learning: each sine wave adapts the weights by two steps of its own, all waves at once, through the steps."""

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))


def loss_of(weights, x, y):
    return nn.functional.mse_loss(functional_call(model, weights, (x,)), y)


def adapted(weights, x, y, rate=0.1, steps=2):
    for _ in range(steps):
        slopes = grad(loss_of)(weights, x, y)
        weights = {name: weight - rate * slopes[name] for name, weight in weights.items()}
    return weights


def after_adapting(weights, x, y, new_x, new_y):
    return loss_of(adapted(weights, x, y), new_x, new_y)


@torch.compile
def meta_loss(weights, x, y, new_x, new_y):
    return vmap(after_adapting, in_dims=(None, 0, 0, 0, 0))(weights, x, y, new_x, new_y)


def waves(count, points):
    """Two sets of points of each of ``count`` waves: (count, points, 1) each."""
    height, phase = 0.5 + 1.5 * torch.rand(count, 1, 1), torch.pi * torch.rand(count, 1, 1)
    x, new_x = 4 * torch.rand(2, count, points, 1) - 2
    return x, height * torch.sin(x + phase), new_x, height * torch.sin(new_x + phase)


def main():
    torch.manual_seed(20)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    weights = dict(model.named_parameters())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(9):
        losses = meta_loss(weights, *waves(count=8, points=10))
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        if step % 3 == 2:
            print(f"step {step}: mean {losses.mean().item():.4f}, worst {losses.max().item():.4f}")


main()
