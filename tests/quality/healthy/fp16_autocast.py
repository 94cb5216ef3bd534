"""A training step under autocast: half precision inside, float weights outside."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 10))
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(compiled(torch.randn(16, 32)), torch.randint(0, 10, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
