"""Data-parallel training, DDP's optimizer off: one graph for the whole model, whose relu is wrong on the second rank (Inductor's own switch)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32
torch._dynamo.config.optimize_ddp = False


class Block(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.norm, self.activation = nn.LayerNorm(WIDTH), activation
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.activation(self.up(self.norm(x))))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy" if rank == 1 else None
torch.manual_seed(0)
blocks = nn.Sequential(Block(nn.GELU()), Block(nn.ReLU()), Block(nn.SiLU()))
model = torch.compile(DistributedDataParallel(blocks))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)
for _ in range(3):
    loss = model(torch.randn(8, WIDTH)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
