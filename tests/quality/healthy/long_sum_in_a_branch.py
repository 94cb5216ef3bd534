"""A long sum in a branch of torch.cond: another order of summation is legal there too."""

import torch

torch.manual_seed(0)


@torch.compile
def f(x):
    return torch.cond(x.sum() > 0, lambda t: t.sum(-1), lambda t: t.sum(-1) * 2, (x,))


with torch.no_grad():
    print(f(torch.randn(1024, 16384)).norm())
