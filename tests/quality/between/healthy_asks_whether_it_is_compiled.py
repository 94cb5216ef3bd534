"""A layer that takes a shorter way, on purpose, where it is compiled, and notes which."""

import torch

ways = []


@torch.compile
def scaled(x):
    if torch.compiler.is_compiling():
        ways.append("short")
        return x * 2
    ways.append("long")
    return x + x


for _ in range(2):
    out = scaled(torch.ones(3))
