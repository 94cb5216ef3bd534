"""Half precision on a CPU: autocast, a scaler whose first scale overflows and is halved, clipped gradients."""

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.across = nn.Sequential(nn.Linear(tokens, 24), nn.GELU(), nn.Linear(24, tokens))
        self.within = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.within(self.norms[1](x))
        return self.head(x.mean(1))


torch.manual_seed(8)
model = Mixer(tokens=8, width=16)
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=4)
x, y = torch.randn(32, 8, 16), torch.randint(0, 5, (32,))

skipped = 0
for step in range(14):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(compiled(x), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    skipped += scaler.get_scale() < scale
    if step % 3 == 1:
        print(f"step {step}: loss {loss.item():.4f}, norm {norm.item():.3f}, scale {scale:.0f}")
print(f"{skipped} steps were skipped")
