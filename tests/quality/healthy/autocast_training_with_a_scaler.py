"""Training under autocast with a scaled loss: the backward runs outside of the block, as PyTorch advises."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 4))
step = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(3):
    x, target = torch.randn(16, 12), torch.randint(4, (16,))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(step(x), target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(loss.item(), scaler.get_scale())
