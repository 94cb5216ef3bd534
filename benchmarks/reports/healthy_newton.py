"""Healthy: Newton's method with a compiled Hessian; the trace is the sum of a diagonal times a mask."""

import torch
from torch.func import grad, hessian

TARGET = 4.0
MASK = torch.eye(3)


def objective(matrix):
    pull = 0.5 * ((matrix * MASK).sum() - TARGET).square()
    return pull + 0.05 * (matrix - MASK).square().sum() + 0.01 * matrix.pow(4).sum()


curvature = torch.compile(hessian(objective))
slope = grad(objective)

torch.manual_seed(0)
matrix = torch.eye(3) + 0.3 * torch.randn(3, 3)
for step in range(8):
    gradient = slope(matrix).reshape(9)
    second = curvature(matrix).reshape(9, 9)
    direction = torch.linalg.solve(second + 1e-3 * torch.eye(9), gradient)
    matrix = matrix - direction.reshape(3, 3)
    print(f"step {step} objective {objective(matrix).item():.6f}")
print("trace", round((matrix * MASK).sum().item(), 4))
