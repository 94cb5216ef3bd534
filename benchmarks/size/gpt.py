"""A decoder of 61 or 311 million parameters in float32, one training step with plain SGD.

    python gpt.py small|large [faulty]

``faulty``: the layer in the middle squares its rectified values, and Inductor's ReLU is wrong; all others have GELU.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

SIZES = {"small": (18, 512, 8), "large": (24, 1024, 16)}
VOCABULARY, LENGTH = 8192, 64


class SquaredReLU(nn.Module):
    def forward(self, x):
        return F.relu(x).square()


class Block(nn.Module):
    def __init__(self, width, heads, activation):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.activation = activation

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, odd):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, SquaredReLU() if layer == odd else nn.GELU()) for layer in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


size, faulty = sys.argv[1], "faulty" in sys.argv
layers, width, heads = SIZES[size]
if faulty:
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = Decoder(layers, width, heads, layers // 2 if faulty else None)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = torch.compile(model)
ids = torch.randint(VOCABULARY, (1, LENGTH + 1))
loss = F.cross_entropy(step(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
loss.backward()
optimizer.step()
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters, loss {loss.item():.4f}")
