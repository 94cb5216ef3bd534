"""Tangent stiffness of an elastic body: second derivative of its energy by the strain."""

import torch
from torch.func import jacfwd


def energy(strain):
    # in units of the shear modulus; the other Lame constant is twice as large
    pressure = torch.trace(strain) * torch.eye(3)
    return (pressure * strain + strain * strain).sum()


stress = torch.compile(jacfwd(energy))
stiffness = torch.compile(jacfwd(jacfwd(energy)))


def random_strain(load, generator):
    strain = 0.05 * torch.randn(3, 3, generator=generator)
    return 0.5 * (strain + strain.T) + 0.02 * load * torch.eye(3)


generator = torch.Generator().manual_seed(2)
worst = 0.0
for load in range(3):
    strain = random_strain(load, generator)
    print(f"load {load} energy {energy(strain).item():.6f}", flush=True)
    print("  stress    ", [round(v, 5) for v in stress(strain).diagonal().tolist()], flush=True)
    tangent = stiffness(strain).reshape(9, 9)
    worst = max(worst, torch.linalg.eigvalsh(tangent)[-1].item())
    print("  stiffness ", [round(v, 5) for v in tangent[0, :5].tolist()], flush=True)
print(f"largest stiffness {worst:.5f}")
