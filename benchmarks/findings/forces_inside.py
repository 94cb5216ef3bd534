"""A potential that returns energies and forces: the forces are taken by autograd inside of what is compiled."""

import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.energy = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, positions):
        energy = self.energy(positions).sum()
        (gradient,) = torch.autograd.grad(energy, positions)
        return energy.detach(), -gradient


def main():
    torch.manual_seed(0)
    potential = torch.compile(Potential(32), backend="aot_eager")
    positions = torch.randn(8, 3)
    for step in range(6):
        energy, forces = potential(positions.requires_grad_())
        positions = (positions + 0.01 * forces).detach()
        print(f"{step}: {energy.item():.4f} {forces.norm().item():.4f}")


main()
