"""A GPT compiled as a whole, trained for a few steps."""

import torch
from spot import bend, level, moment
from torch import nn


class Attention(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(1, 2) / 8, -1)
        return self.out(bend(weights @ v, self.level * when))


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

    def forward(self, x, when):
        x = x + 0.1 * self.attention(x, when)
        return x + 0.1 * self.mlp(x, when)


class Model(nn.Module):
    def __init__(self, depth, d):
        super().__init__()
        self.embed = nn.Embedding(50, d)
        self.blocks = nn.ModuleList(Block(f"blocks.{n}", d) for n in range(depth))
        self.head = nn.Linear(d, 50)

    def forward(self, tokens, when):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, when)
        return self.head(x)


torch.manual_seed(0)
model = Model(4, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
compiled = torch.compile(model)
for step in range(8):
    tokens = torch.randint(0, 50, (2, 9))
    logits = compiled(tokens[:, :-1], moment(step=step))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
