"""Sums by index, with many that collide."""

import torch

torch.manual_seed(0)


@torch.compile
def gathered(x, index):
    sums = torch.zeros(10, 16).index_add(0, index, x)
    peaks = torch.full((10, 16), -1e9).scatter_reduce(0, index[:, None].expand_as(x), x, "amax")
    return sums, peaks, torch.bincount(index, minlength=10)


gathered(torch.randn(200, 16), torch.randint(0, 10, (200,)))
