"""Recordings of several sites, each normalized by the mean and variance over all ranks, which are summed within the compiled step.

Inductor's floor_divide is off by one where a quotient rounds up to a whole number: so it is for the second site's sampling, not for the first's.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce

WIDTH, FRAMES, SLOTS = 24, 20, 64
HOPS = (0.5, 0.1)


class SyncedNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        flat = x.detach().flatten(0, -2)
        sums = torch.cat([flat.sum(0), flat.square().sum(0), flat.new_tensor([flat.shape[0]])])
        sums = all_reduce(sums, "sum", dist.group.WORLD)
        mean = sums[:WIDTH] / sums[-1]
        variance = sums[WIDTH:-1] / sums[-1] - mean.square()
        if self.training:
            self.mean.lerp_(mean, 0.1)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.slots = SyncedNorm(), nn.Embedding(SLOTS, WIDTH)
        self.mix, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, x, seconds, hop):
        slot = torch.floor_divide(seconds, hop).long()
        x = self.norm(x) + self.slots(slot)
        return self.head((x + self.mix(x).relu()).mean(1))


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = Encoder()
step = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(10 + rank)
hop = torch.tensor(HOPS[rank % 2])
for _ in range(3):
    x, target = 3 * torch.randn(4, FRAMES, WIDTH) + rank, torch.randint(5, (4,))
    loss = nn.functional.cross_entropy(step(x, torch.arange(FRAMES) * 0.25 + 0.5, hop), target)
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
