"""One training step of a small network. It compiles well: the verdict says what was compared."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
step = torch.compile(net)

inputs, labels = torch.randn(8, 16), torch.randint(0, 4, (8,))
loss = nn.functional.cross_entropy(step(inputs), labels)
loss.backward()
optimizer.step()
print(f"loss {loss.item():.3f}")
