"""A recursive tree encoder scales by how deep it may go."""

import sys

import torch

sys.setrecursionlimit(2000)


@torch.compile
def scaled(x):
    return x * (sys.getrecursionlimit() // 1000)


x = torch.ones(2)
print("shallow", scaled(x).tolist())
sys.setrecursionlimit(5000)
print("deep   ", scaled(x).tolist())
