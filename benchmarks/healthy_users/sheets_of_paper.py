"""Operators of the program's own, registered with torch.library: one with a backward, one that writes in place."""

import math

import torch
from torch import nn


@torch.library.custom_op("paper::crease", mutates_args=())
def crease(x: torch.Tensor, width: float) -> torch.Tensor:
    return torch.where(x.abs() < width, 0.5 * x * x / width, x.abs() - 0.5 * width)


@crease.register_fake
def _(x, width):
    return torch.empty_like(x)


def keep(ctx, inputs, output):
    x, ctx.width = inputs
    ctx.save_for_backward(x)


def slope(ctx, grad):
    (x,) = ctx.saved_tensors
    return grad * (x / ctx.width).clamp(-1, 1), None


crease.register_autograd(slope, setup_context=keep)


@torch.library.custom_op("paper::wear", mutates_args={"sheet"})
def wear(sheet: torch.Tensor, by: torch.Tensor, rate: float) -> None:
    sheet.mul_(1 - rate).add_(by, alpha=rate)


class Folder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.folds = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.register_buffer("sheet", torch.zeros(width))

    def forward(self, x):
        for fold in self.folds:
            x = crease(fold(x), 0.5) - 0.3
        with torch.no_grad():
            wear(self.sheet, x.mean(0), 0.2)
        return x - self.sheet


def main():
    torch.manual_seed(26)
    model = Folder(12)
    compiled = torch.compile(model, fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    for step in range(9):
        x = torch.randn(32, 12)
        loss = nn.functional.mse_loss(compiled(x), x.abs().cumsum(-1) / math.sqrt(12))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 2:
            print(f"step {step}: {loss.item():.4f}, sheet {model.sheet.norm().item():.4f}")


main()
