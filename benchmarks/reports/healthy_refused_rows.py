"""Healthy: rows that do not fit are refused, with the compiler as without it, and the rest is averaged in half precision."""

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.body(rows).float().squeeze(-1)


torch.manual_seed(0)
scorer = Scorer(6)
score = torch.compile(scorer)
optimizer = torch.optim.AdamW(scorer.parameters(), lr=3e-3)
best, waited, refused = float("inf"), 0, 0
for step in range(30):
    rows = torch.randn(12, 5 if step % 7 == 3 else 6)
    try:
        loss = (score(rows) - rows[:, 0]).square().mean()
    except RuntimeError:
        refused += 1
        continue
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best - 0.02:
        best, waited = loss.item(), 0
    else:
        waited += 1
    if waited > 25:
        break
print(f"best loss {best:.2f}, refused {refused}")
