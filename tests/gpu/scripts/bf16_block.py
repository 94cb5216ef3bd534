"""A transformer block in bfloat16: eager rounds after every operator, a fused kernel once."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


device = sys.argv[1]
torch.manual_seed(0)
model = Block(64, 4).to(device, torch.bfloat16)
loss = torch.compile(model)(torch.randn(2, 32, 64, device=device, dtype=torch.bfloat16)).float().square().mean()
loss.backward()
print(loss.item())
