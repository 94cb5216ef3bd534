"""A transformer whose blocks are recomputed in the backward, under autocast to bfloat16."""

import torch
from spot import bend, level, moment
from torch import nn
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        return self.down(bend(self.up(x), self.level * when))


class Block(nn.Module):
    def __init__(self, path, d):
        super().__init__()
        self.norm, self.mix, self.mlp = nn.LayerNorm(d), nn.Linear(d, d), Mlp(f"{path}.mlp", d)
        self.register_buffer("level", level(path))

    def forward(self, x, when):
        x = x + bend(self.mix(x), self.level * when)
        return x + self.mlp(self.norm(x), when)


class Model(nn.Module):
    def __init__(self, depth, d):
        super().__init__()
        self.blocks = nn.ModuleList(Block(f"blocks.{n}", d) for n in range(depth))
        self.head = nn.Linear(d, 4)

    def forward(self, x, when):
        for block in self.blocks:
            x = checkpoint(block, x, when, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Model(2, 16)
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(8):
    with torch.autocast("cpu", torch.bfloat16):
        loss = compiled(torch.randn(4, 6, 16), moment(step=step)).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
