"""Bucket ids are gathered in a set and folded in the order of the set."""

import torch

buckets = {33, 1}


@torch.compile
def fold(x):
    buckets.add(2)
    for bucket in buckets:
        x = x * 2 + bucket
    return x


print("folded", fold(torch.zeros(1)).item(), "buckets", sorted(buckets))
print("again ", fold(torch.zeros(1)).item(), "buckets", sorted(buckets))
