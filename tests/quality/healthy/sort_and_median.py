"""Order statistics of values that are given: one right answer, whatever the order of equals."""

import torch

torch.manual_seed(0)


@torch.compile
def ordered(x):
    return x.sort(-1).values, x.median(-1).values, x.kthvalue(3, -1).values, x.cummax(-1).values, torch.unique(x)


ordered(torch.randint(0, 9, (8, 32)).float())
