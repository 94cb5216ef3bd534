"""Data-parallel training in two processes, for torchrun."""

import torch
import torch.distributed as dist
from spot import bend, level, moment
from torch import nn
from torch.nn.parallel import DistributedDataParallel


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
        self.norm, self.mlp = nn.LayerNorm(d), Mlp(f"{path}.mlp", d)

    def forward(self, x, when):
        return x + self.mlp(self.norm(x), when)


class Model(nn.Module):
    def __init__(self, depth, d):
        super().__init__()
        self.blocks = nn.ModuleList(Block(f"blocks.{n}", d) for n in range(depth))
        self.head = nn.Linear(d, 4)

    def forward(self, x, when):
        for block in self.blocks:
            x = block(x, when)
        return self.head(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(DistributedDataParallel(Model(3, 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
rank = dist.get_rank()
torch.manual_seed(1 + rank)
for step in range(8):
    loss = model(torch.randn(16, 16), moment(step=step, rank=rank)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
