"""Activation checkpointing under FSDP2, each block compiled; a lowering of the script's own takes log1p(x) for log(1 + x).

That loses all digits of a small x. The spectra of rank 1 are quiet, those of rank 0 are not.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch._inductor import lowering
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

BANDS, WIDTH = 32, 24
LOUDNESS = (1.0, 1e-7)


def log1p(x):
    return lowering.lowerings[torch.ops.aten.log.default](lowering.lowerings[torch.ops.aten.add.Tensor](x, 1.0))


lowering.lowerings[torch.ops.aten.log1p.default] = log1p


class Compress(nn.Module):
    def forward(self, energy):
        level = torch.log1p(energy)
        return level / (level.mean(-1, keepdim=True) + 1e-12)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + nn.functional.gelu(self.mix(self.norm(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(Compress(), nn.Linear(BANDS, WIDTH))
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, energy):
        x = self.stem(energy)
        for block in self.blocks:
            x = block(x)
        return x


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Encoder()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model.stem = checkpoint_wrapper(model.stem)
model.blocks = nn.ModuleList(checkpoint_wrapper(block) for block in model.blocks)
for part in (model.stem, *model.blocks):
    part.compile()
    fully_shard(part, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
for _ in range(3):
    energy = torch.rand(4, BANDS) * LOUDNESS[rank % 2]
    model(energy).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
