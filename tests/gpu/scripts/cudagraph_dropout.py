"""A healthy training loop with dropout under reduce-overhead: replays draw new masks each time."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(128, 512), nn.GELU(), nn.Dropout(0.3), nn.Linear(512, 128), nn.Dropout(0.1), nn.Linear(128, 10)
).to(device)
compiled = torch.compile(model, mode="reduce-overhead")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(5):
    loss = F.cross_entropy(compiled(torch.randn(64, 128, device=device)), torch.arange(64, device=device) % 10)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(loss.item())
