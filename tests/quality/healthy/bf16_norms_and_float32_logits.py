"""A bfloat16 model whose norms cast up and down, and whose logits and loss are in float32."""

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = x.float()
        return (self.weight * h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = Norm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


torch.manual_seed(0)
body = nn.Sequential(Block(16), Block(16), Norm(16)).to(torch.bfloat16)
head = nn.Linear(16, 20, bias=False).to(torch.bfloat16)


@torch.compile
def loss(x, target):
    return nn.functional.cross_entropy(head(body(x)).float(), target)


for _ in range(2):
    value = loss(torch.randn(8, 16, dtype=torch.bfloat16), torch.randint(20, (8,)))
    value.backward()
    print(value.item())
