"""Healthy: a delay line that is rolled feeds a small echo filter: all rows move down by one, then the newest is written."""

import torch
from torch import nn


class Echo(nn.Module):
    """Delayed rows, weighed by a decay; the caller writes the newest row."""

    def __init__(self, taps, width, decay):
        super().__init__()
        self.register_buffer("rows", torch.zeros(taps, width))
        self.register_buffer("weights", decay ** torch.arange(1, taps + 1).float())

    def forward(self, sample):
        self.rows.copy_(self.rows.roll(1, 0))
        return sample + self.weights @ self.rows


torch.manual_seed(1)
echo = Echo(taps=6, width=16, decay=0.6)
step = torch.compile(echo)

power = []
with torch.no_grad():
    for number in range(8):
        sample = torch.randn(16) if number < 3 else torch.zeros(16)
        out = step(sample)
        echo.rows[0] = sample
        power.append(out.pow(2).mean().item())
        print(f"step {number}: input {sample.pow(2).mean().item():.4f}  output {power[-1]:.4f}")

quiet = [number for number, value in enumerate(power) if value < 0.05]
print("quiet steps", quiet)
print("rows in use", (echo.rows.abs().sum(dim=1) > 0).sum().item())
