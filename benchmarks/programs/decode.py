"""Greedy decoding with a cache of keys and values that grows by a token at each step."""

import torch
from spot import bend, level, moment
from torch import nn


class Attention(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, keys, values, when):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        weights = torch.softmax(q @ keys.transpose(1, 2) / 8, -1)
        return self.out(bend(weights @ values, self.level * when)), keys, values


class Mlp(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        return self.down(bend(self.up(self.norm(x)), self.level * when))


class Block(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.attention, self.mlp = Attention(f"{path}.attention", d), Mlp(f"{path}.mlp", d)

    def forward(self, x, keys, values, when):
        mixed, keys, values = self.attention(x, keys, values, when)
        x = x + mixed
        return x + self.mlp(x, when), keys, values


class Model(nn.Module):
    def __init__(self, depth, d):
        super().__init__()
        self.embed, self.head = nn.Embedding(50, d), nn.Linear(d, 50)
        self.blocks = nn.ModuleList(Block(f"blocks.{n}", d) for n in range(depth))

    def forward(self, token, cache, when):
        x, grown = self.embed(token), []
        for block, (keys, values) in zip(self.blocks, cache, strict=True):
            x, keys, values = block(x, keys, values, when)
            grown.append((keys, values))
        return self.head(x), grown


torch.manual_seed(0)
model = Model(2, 16).eval()
compiled = torch.compile(model)
token = torch.tensor([[1], [2]])
cache = [(torch.zeros(2, 0, 16), torch.zeros(2, 0, 16)) for _ in model.blocks]
with torch.no_grad():
    for step in range(40):
        logits, cache = compiled(token, cache, moment(step=step))
        token = logits.argmax(-1)
