"""A student learns from a slow copy of itself: one model runs without gradients, the other with them, both are compiled."""

import copy

import torch
from torch import nn

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 4))
teacher = nn.Sequential(copy.deepcopy(student), nn.ReLU())
fast_student, fast_teacher = torch.compile(student), torch.compile(teacher)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(8, 6)
    with torch.no_grad():
        target = fast_teacher(x + 0.1 * torch.randn_like(x))
    loss = nn.functional.mse_loss(fast_student(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, quick in zip(teacher[0].parameters(), student.parameters(), strict=True):
            slow.lerp_(quick, 0.1)
    print(loss.item())
