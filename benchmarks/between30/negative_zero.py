"""Attention bias: the sign of zero says from which side a limit is reached."""

import torch


class Limit:
    def __init__(self, value):
        self.value = value


@torch.compile
def slope(limit, x):
    return x / limit.value


limit = Limit(0.0)
x = torch.ones(2)
print("from above", slope(limit, x).tolist())
limit.value = -0.0
print("from below", slope(limit, x).tolist())
