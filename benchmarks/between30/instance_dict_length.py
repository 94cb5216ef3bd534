"""The number of tracked statistics is read off an object's dictionary."""

import torch


class Stats:
    def __init__(self):
        self.mean = 0.0


stats = Stats()


@torch.compile
def averaged(total):
    return total / len(stats.__dict__)


total = torch.full((2,), 6.0)
print("one  ", averaged(total).tolist())
stats.var = 1.0
stats.skew = 0.5
print("three", averaged(total).tolist())
