"""Generators, itertools and iterators that a compiled function consumes to their end."""

import itertools

import torch

tickets = itertools.count(5)
names = itertools.cycle(["a", "b"])
log = []


def chunks(x):
    try:
        for start in range(0, 4, 2):
            yield x[start : start + 2]
    finally:
        log.append("released")


@torch.compile
def step(x):
    total = x[:2] * 0
    for chunk in chunks(x):
        total = total + chunk
    log.append((next(tickets), next(names)))
    return total


for scale in range(3):
    y = step(torch.ones(4) * scale)
print(y.tolist(), log)
