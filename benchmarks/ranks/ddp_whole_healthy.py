"""Data-parallel training of a whole model that was wrapped, then compiled: small buckets, so that DDP's optimizer splits the graph."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 192


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(3)))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.head(self.blocks(x))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.compile(DistributedDataParallel(Model(), bucket_cap_mb=1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
torch.manual_seed(1 + rank)
for _ in range(4):
    x, target = torch.randn(16, WIDTH), torch.randint(10, (16,))
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), target, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
total = torch.tensor([loss.item()])
dist.all_reduce(total)
if rank == 0:
    print(f"loss {total.item() / dist.get_world_size():.4f}")
dist.destroy_process_group()
