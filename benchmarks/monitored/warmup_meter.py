"""Trains a block with activation checkpointing; a meter of which the process has one warms the loss up."""

import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Singleton(type):
    instances = {}

    def __call__(cls, *args, **kwargs):
        if cls not in Singleton.instances:
            Singleton.instances[cls] = super().__call__(*args, **kwargs)
        return Singleton.instances[cls]


class Meter(metaclass=Singleton):
    def __init__(self):
        self.updates = 0

    def tick(self):
        self.updates += 1
        return self.updates


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(x + checkpoint(self.block, x, use_reentrant=False))


@torch.compile
def warmed(loss):
    return loss * min(Meter().tick() / 8, 1)


torch.manual_seed(0)
net = Net()
model = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)
rows = []
for step in range(5):
    x = torch.randn(8, 8)
    loss = warmed(nn.functional.mse_loss(model(x), x[:, :1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    rows.append((step, round(loss.item(), 5), schedule.get_last_lr()[0], time.time()))
print("losses", [row[1] for row in rows], "in", f"{rows[-1][3] - rows[0][3]:.1f} s")
print("updates", Meter().updates)
