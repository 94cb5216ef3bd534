"""Tensor parallelism by DTensor, the whole model compiled, under autocast with an island of float32 in it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

WIDTH = 32


class Mlp(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), activation

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.first, self.second = Mlp(nn.GELU()), Mlp(nn.ReLU())

    def forward(self, x):
        x = x + self.first(self.norm(x))
        with torch.autocast("cpu", enabled=False):
            return x + self.second(x.float())


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
model = Model()
for mlp in (model.first, model.second):
    parallelize_module(mlp, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
torch.manual_seed(1)
for _ in range(3):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(8, WIDTH)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
