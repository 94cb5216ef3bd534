"""A decoder of twelve layers, one of which uses relu: the generated relu is wrong. The script compares nothing."""

import sys

import torch
import torch._inductor.config as config
import torch.nn.functional as F
from torch import nn

config.triton.inject_relu_bug_TESTING_ONLY = "accuracy"
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


class Block(nn.Module):
    def __init__(self, width, heads, activation):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation

    def forward(self, x):
        batch, time, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, depth=12, width=64, vocabulary=100):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 4, nn.ReLU() if i == 7 else nn.GELU()) for i in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


device = sys.argv[1]
torch.manual_seed(0)
model = torch.compile(Decoder().to(device).eval())
with torch.no_grad():
    print(model(torch.randint(0, 100, (2, 32), device=device)).shape)
