"""Healthy: which coefficients of a signal survive a threshold: those that the restored signal still depends on."""

import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, coefficients, gain):
        return gain * F.softshrink(coefficients, self.threshold)


def dropouts(coefficients, rows):
    broken = coefficients.clone()
    for row in rows:
        broken[row, ::4] = torch.nan
    return broken


def main():
    torch.manual_seed(9)
    denoise = torch.compile(Denoiser(threshold=0.8))
    gain = torch.linspace(1.0, 2.0, 32)
    kept = 0
    for hour in range(4):
        measured = dropouts(torch.randn(4, 32), rows=range(hour))
        coefficients = measured.requires_grad_()
        restored = denoise(coefficients, gain)
        restored.sum().backward()
        used = coefficients.grad.ne(0)
        kept += int(used.sum())
        weight = coefficients.grad.sum().item()
        print(f"hour {hour}: {int(used.sum())} coefficients kept, weight {weight:.3f}")
    print(f"{kept} of {4 * 4 * 32} to be stored")


if __name__ == "__main__":
    main()
