"""Integers to a negative power: eager refuses, compiled answers."""

import torch


@torch.compile
def decay(steps, rate):
    return torch.pow(steps + 1, rate) * 2


try:
    decay(torch.arange(4), -2)
except RuntimeError as error:
    print("refused:", error)
else:
    raise AssertionError("an integer to a negative power must be refused")
