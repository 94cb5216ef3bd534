"""Phases of spectra without their constant part, which is put out by a negative zero as the recorder writes it."""

import torch
from torch import nn


class Phases(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.register_buffer("weight", torch.linspace(1, 0, bins))

    def forward(self, signal):
        spectrum = torch.fft.rfft(signal)
        spectrum[..., 0] = complex(-0.0, 0.0)
        return torch.angle(spectrum) * self.weight


torch.manual_seed(0)
phases = torch.compile(Phases(9))
drift = 0.0
for second in range(4):
    signal = torch.sin(torch.arange(16) * 0.7 + second) + 0.1 * torch.randn(3, 16)
    with torch.no_grad():
        phase = phases(signal)
    drift += phase[:, 0].sum().item()
    print("second", second, "mean phase", round(phase.mean().item(), 4))
print("drift of the first bin", round(drift, 4))
