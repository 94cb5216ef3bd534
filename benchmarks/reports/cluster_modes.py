"""Vibration modes of small clusters: a Hessian of the energy for every configuration of a batch."""

import torch


def energy(positions):
    points = positions.view(-1, 2)
    shift = points[:, None, :] - points[None, :, :]
    squared = shift.square().sum(-1) + torch.eye(points.shape[0])
    well = (1.0 / squared - 0.4).square().sum()
    return 0.5 * well + 0.1 * points.square().sum()


def relax(configurations, steps, rate):
    gradient = torch.func.vmap(torch.func.grad(energy))
    for _ in range(steps):
        configurations = configurations - rate * gradient(configurations)
    return configurations


@torch.compile
def stiffness(configurations):
    return torch.func.vmap(torch.func.hessian(energy))(configurations)


torch.manual_seed(0)
batch = relax(torch.randn(5, 6), steps=50, rate=0.02)
print("energies", [round(e, 4) for e in torch.func.vmap(energy)(batch).tolist()])
matrices = stiffness(batch)
for number, matrix in enumerate(matrices):
    modes = torch.linalg.eigvalsh(matrix)
    print(f"cluster {number}: lowest {modes[0].item():+.4f} highest {modes[-1].item():+.4f}")
