"""Hooks of all kinds that are there before the first call."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
seen = []
net[0].register_forward_pre_hook(lambda module, args: seen.append("pre"))
net[2].register_forward_hook(lambda module, args, out: seen.append("out"))
net[0].weight.register_hook(lambda grad: seen.append("grad"))
model = torch.compile(net)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
print(seen, [round(v, 4) for v in net[0].weight.grad.flatten().tolist()])
