"""Prints and data-dependent branches between the graphs."""

import torch

torch.manual_seed(0)


@torch.compile
def branching(x):
    x = x.sin()
    print("mean", bool(x.mean() > 0))
    if x.sum() > 0:
        return x.cos() + 1
    return x.exp() - 1


for sign in (1, -1, 1):
    branching(sign * torch.rand(32))
