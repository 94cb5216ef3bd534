"""Integers wrap around, shift and mask; every bit counts."""

import torch

torch.manual_seed(0)


@torch.compile
def mix(x):
    for shift in (13, 7, 17):
        x = x ^ ((x << shift) & 0x7FFFFFFF)
        x = (x * 2654435761) & 0xFFFFFFFF
    return x, x % 97, x // 3, (x & 1).bool()


mix(torch.arange(1000))
