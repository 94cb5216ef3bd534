"""A smoothing filter that is given windows of one signal, which lie side by side in every step."""

import torch


@torch.compile
def smooth(window, neighbour):
    window.mul_(0.5)
    return window + neighbour.sum()


signal = torch.arange(64.0)
total = smooth(signal[0:8].clone(), signal[8:16].clone()).sum()
for start in range(0, 32, 8):
    total += smooth(signal[start : start + 8], signal[start + 8 : start + 16]).sum()
print("total", total.item())
