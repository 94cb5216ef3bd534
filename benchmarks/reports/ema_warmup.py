"""A student with a teacher that is its running average; the average starts short and becomes long."""

import copy

import torch
from torch import nn


@torch.compile
def average(teacher, student, decay):
    """Move every weight of the teacher towards the student's."""
    for mean, value in zip(teacher, student, strict=True):
        mean.mul_(decay).add_(value, alpha=1 - decay)


def decay_at(step):
    return min(0.99, (1 + step) / (4 + step))


torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
inputs = torch.randn(64, 6)
targets = inputs[:, :1] * inputs[:, 1:2] + 0.1 * torch.randn(64, 1)

for step in range(12):
    loss = nn.functional.mse_loss(student(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        average(list(teacher.parameters()), list(student.parameters()), decay_at(step))
        error = nn.functional.mse_loss(teacher(inputs), targets)
    if step % 3 == 2:
        print(f"step {step:2d}  decay {decay_at(step):.3f}  student {loss.item():.4f}  teacher {error.item():.4f}")

norm = sum(p.detach().norm() for p in teacher.parameters())
print(f"norm of the teacher {norm.item():.4f}")
