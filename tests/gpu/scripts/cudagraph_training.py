"""A healthy training loop under reduce-overhead: parameters change in place between replays, and losses are read at the end."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

device = sys.argv[1]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 8)).to(device)
compiled = torch.compile(model, mode="reduce-overhead")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
losses = []
for _ in range(6):
    torch.compiler.cudagraph_mark_step_begin()
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(compiled(torch.randn(32, 64, device=device)), torch.arange(32, device=device) % 8)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach().clone())
print(torch.stack(losses).tolist())
