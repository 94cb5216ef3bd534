"""Gradient monitoring that is switched on after the warm-up."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
model = torch.compile(net)
norms = []


def watch(module, grad_input, grad_output):
    norms.append(round(grad_output[0].norm().item(), 4))


x = torch.ones(2, 3, requires_grad=True)
model(x).sum().backward()
net[0].register_full_backward_hook(watch)
for _ in range(2):
    model(x).sum().backward()
print("gradients seen", len(norms))
