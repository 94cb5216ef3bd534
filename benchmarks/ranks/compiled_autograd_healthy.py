"""Data parallelism with compiled autograd: the reducer is traced in Python, so that the backward's collectives stand in its graph."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 24
torch._dynamo.config.compiled_autograd = True
torch._dynamo.config.optimize_ddp = "python_reducer"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = (
            nn.Linear(WIDTH, 2 * WIDTH),
            nn.Linear(2 * WIDTH, WIDTH),
            nn.Linear(WIDTH, 3),
        )

    def forward(self, x):
        return self.head(x + self.second(nn.functional.silu(self.first(x))))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.compile(DistributedDataParallel(Model()))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(1 + rank)


@torch.compile
def step(x, target):
    loss = nn.functional.cross_entropy(model(x), target)
    loss.backward()
    return loss.detach()


for _ in range(3):
    loss = step(torch.randn(8, WIDTH), torch.randint(3, (8,)))
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:
    print(f"loss {loss.item():.4f}")
dist.destroy_process_group()
