"""Sums of a million terms, and running ones."""

import torch

torch.manual_seed(0)


@torch.compile
def summed(x):
    return x.sum(), x.mean(), x.cumsum(0)[-1], x.square().sum().sqrt(), x.half().sum()


summed(torch.randn(1_000_000) + 0.5)
