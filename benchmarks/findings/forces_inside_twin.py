"""A potential that returns energies; its caller takes the forces by autograd."""

import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.energy = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, positions):
        return self.energy(positions).sum()


def main():
    torch.manual_seed(0)
    potential = torch.compile(Potential(32), backend="aot_eager")
    positions = torch.randn(8, 3)
    for step in range(6):
        energy = potential(positions.requires_grad_())
        (gradient,) = torch.autograd.grad(energy, positions)
        forces = -gradient
        positions = (positions + 0.01 * forces).detach()
        print(f"{step}: {energy.item():.4f} {forces.norm().item():.4f}")


main()
