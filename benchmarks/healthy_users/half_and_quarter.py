"""Inference in float16 on a CPU with weights in float8: softmax near its ends, sums beside the largest number."""

import torch
from torch import nn


class Float8Linear(nn.Module):
    """Weights in float8 with a scale per row; the product is in float16."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 448
        self.register_buffer("weight", (linear.weight.detach() / scale).to(torch.float8_e4m3fn))
        self.register_buffer("scale", scale.half())
        self.register_buffer("bias", linear.bias.detach().half())

    def forward(self, x):
        return x @ (self.weight.half() * self.scale).T + self.bias


class Reader(nn.Module):
    def __init__(self, width, labels):
        super().__init__()
        self.first, self.second = Float8Linear(nn.Linear(width, 64)), Float8Linear(nn.Linear(64, labels))

    def forward(self, x):
        hidden = nn.functional.gelu(self.first(x), approximate="tanh")
        scores = 40 * self.second(hidden / hidden.square().mean(-1, keepdim=True).add(1e-4).sqrt())
        chance = scores.softmax(-1)
        surprise = -(chance * chance.clamp(min=6e-8).log()).sum(-1)
        volume = (hidden * 100).square().sum(-1)
        return chance, surprise, volume.clamp(max=65504)


torch.manual_seed(36)
reader = Reader(20, 12).eval()
read = torch.compile(reader, dynamic=True)
with torch.no_grad():
    for size in (3, 17, 8, 30):
        chance, surprise, volume = read(3 * torch.randn(size, 20).half())
        sure = (chance.amax(-1) > 0.99).sum().item()
        print(
            f"batch of {size}: surprise {surprise.float().mean().item():.2f}, {sure} sure, loud {volume.amax().item():.0f}"
        )
