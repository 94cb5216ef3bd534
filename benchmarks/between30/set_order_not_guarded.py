"""Experts are visited in the order of a set that came in another order."""

import torch


@torch.compile
def route(x, experts):
    for expert in experts:
        x = x * 2 + expert
    return x


first = {8, 0}
second = set()
for expert in (0, 8):
    second.add(expert)
x = torch.zeros(1)
print("first ", list(first), route(x, first).item())
print("second", list(second), route(x, second).item())
