"""Data-parallel training of blocks that are compiled one by one, with gradients summed over micro-batches: only the last one synchronizes."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, PARTS = 40, 3


class Block(nn.Module):
    def __init__(self, stride):
        super().__init__()
        self.norm = nn.GroupNorm(4, WIDTH)
        self.wide, self.back = nn.Conv1d(WIDTH, WIDTH, 5, padding=2, groups=4), nn.Conv1d(WIDTH, WIDTH, 1)
        self.drop, self.stride = nn.Dropout(0.1), stride

    def forward(self, x):
        x = x + self.drop(self.back(nn.functional.mish(self.wide(self.norm(x)))))
        return nn.functional.avg_pool1d(x, self.stride)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(2, WIDTH, 7, padding=3)
        self.blocks = nn.ModuleList(Block(stride) for stride in (2, 1, 2))
        self.head = nn.Linear(WIDTH, 6)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-1))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Classifier()
for block in model.blocks:
    block.compile()
model = DistributedDataParallel(model, gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
torch.manual_seed(1 + rank)
for step in range(3):
    total = torch.zeros(())
    for part in range(PARTS):
        x, target = torch.randn(6, 2, 64), torch.randint(6, (6,))
        with model.no_sync() if part < PARTS - 1 else contextlib.nullcontext():
            loss = nn.functional.cross_entropy(model(x), target) / PARTS
            loss.backward()
        total += loss.detach()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    dist.all_reduce(total)
    if rank == 0:
        print(f"step {step} loss {total.item():.3f}", flush=True)
dist.destroy_process_group()
