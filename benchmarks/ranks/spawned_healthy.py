"""A program that starts its two ranks itself, by ``torch.multiprocessing.spawn``; blocks are compiled one by one, DDP is outside."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH, RANKS = 16, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.relu(self.mix(self.norm(x)))


def train(rank, ranks):
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 4))
    for block in model[:2]:
        block.compile()
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    torch.manual_seed(1 + rank)
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(torch.randn(8, WIDTH)), torch.randint(4, (8,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    mp.spawn(train, args=(RANKS,), nprocs=RANKS)
