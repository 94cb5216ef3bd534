"""Integrates complex phasors by the trapezoidal rule in windows that get shorter towards the end."""

import math

import torch


def window_sum(phasors, width):
    return (0.5 * width * (phasors[:, 1:] + phasors[:, :-1])).sum(dim=1)


integrate = torch.compile(window_sum, dynamic=False)


def windows(length):
    start = 0
    size = length // 2
    while start < length:
        stop = min(start + max(size, 1), length)
        yield start, stop
        start, size = stop, size // 2


time = torch.linspace(0, 1, 16)
frequencies = torch.tensor([1.0, 2.0, 5.0])
phasors = torch.polar(torch.exp(-time).expand(3, 16).contiguous(), 2 * math.pi * frequencies[:, None] * time)

total = torch.zeros(3, dtype=torch.complex64)
for start, stop in windows(16):
    part = integrate(phasors[:, start:stop].contiguous(), 1.0 / 15)
    total += part
    print(f"window {start:2d}:{stop:2d}  |part| {part.abs().sum().item():.5f}")
print("total", [round(abs(v), 5) for v in total.tolist()])
