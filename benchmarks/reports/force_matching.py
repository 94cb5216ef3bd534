"""Fits an interatomic potential to forces, which are gradients of its energy, so that the loss goes back through them."""

import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, positions):
        return self.layers(positions).sum()


torch.manual_seed(0)
potential = Potential()
energy = torch.compile(potential)
optimizer = torch.optim.SGD(potential.parameters(), lr=0.05)
for step in range(4):
    positions = torch.randn(10, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(energy(positions), positions, create_graph=True)
    loss = (-slope - positions.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", round(loss.item(), 5))
