"""A smoothing filter that is given windows of one signal: the first two do not overlap, as those of all later steps do.

What was compiled for windows apart reads the neighbour before the window is written to. Nothing is compared.
"""

import torch


@torch.compile
def smooth(window, neighbour):
    window.mul_(0.5)
    return window + neighbour.sum()


signal = torch.arange(64.0)
total = smooth(signal[0:8].clone(), signal[8:16].clone()).sum()
for start in range(0, 32, 4):
    total += smooth(signal[start : start + 8], signal[start + 4 : start + 12]).sum()
print("total", total.item())
