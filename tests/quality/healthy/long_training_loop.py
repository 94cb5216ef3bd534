"""Two hundred steps of Adam: what differs in the last bit is another path after a while."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
compiled = torch.compile(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
inputs, targets = torch.randn(64, 8), torch.randn(64, 1)
for _ in range(200):
    optimizer.zero_grad()
    F.mse_loss(compiled(inputs), targets).backward()
    optimizer.step()
