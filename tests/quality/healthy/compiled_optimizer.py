"""The optimizer's step itself is compiled."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Linear(16, 16)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


@torch.compile
def step():
    optimizer.step()


for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()
    step()
