"""FSDP2 over blocks that were compiled before, as TorchTitan does it: each rank reads recordings of its own hop length.

Inductor's floor_divide is off by one where a quotient rounds up to a whole number, which a hop of 0.1 brings about and one of 0.25 does not.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WIDTH, FRAMES = 32, 24
HOPS = (0.25, 0.1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, when):
        return x + self.mix(self.norm(x)).tanh()


class Timed(Block):
    def __init__(self):
        super().__init__()
        self.slots = nn.Embedding(128, WIDTH)

    def forward(self, x, when):
        seconds, hop = when
        slot = torch.floor_divide(seconds, hop).long()
        return super().forward(x, when) + self.slots(slot)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Timed(), Block()])
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x, when):
        for block in self.blocks:
            x = block(x, when)
        return self.head(x.mean(1))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Encoder()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for block in model.blocks:
    block.compile()
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
hop = torch.tensor(HOPS[rank % 2])
for _ in range(3):
    x, target = torch.randn(2, FRAMES, WIDTH), torch.randint(4, (2,))
    loss = nn.functional.cross_entropy(model(x, (torch.arange(FRAMES) * 0.5, hop)), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
