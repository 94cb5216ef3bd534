"""A student is trained as usual; every third step the slopes of a held-out loss say which examples count, with the graph kept for the step."""

import torch
import torch.nn.functional as F
from torch import nn


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 16, 5, padding=2)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 5)

    def forward(self, x):
        features = F.silu(self.conv(x)).transpose(1, 2)
        return self.out(self.norm(features).mean(1))


def influence(loss, held_out, parameters):
    own = torch.autograd.grad(loss, parameters, retain_graph=True)
    other = torch.autograd.grad(held_out, parameters, retain_graph=True)
    return sum((a * b).sum() for a, b in zip(own, other, strict=True)).detach()


def batch(size):
    return torch.randn(size, 3, 20), torch.randint(0, 5, (size,))


torch.manual_seed(4)
student = Student()
student.compile()
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
counts = []
for step in range(4):
    x, y = batch(8)
    loss = F.cross_entropy(student(x), y)
    if step % 3 == 2:
        held_x, held_y = batch(8)
        held_out = F.cross_entropy(student(held_x), held_y)
        loss = loss * (1 + torch.sigmoid(influence(loss, held_out, list(student.parameters()))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    counts.append(loss.item())
print(counts)
