"""A stream of chunks that must release its slot when the loop is left early."""

import torch

slots = {"open": 0, "released": 0}


def chunks(x):
    slots["open"] += 1
    try:
        yield x[:2]
        yield x[2:]
    finally:
        slots["released"] += 1


@torch.compile
def first_large(x):
    for chunk in chunks(x):
        if chunk.shape[0] == 2:
            break
    return chunk * 2


for step in range(3):
    y = first_large(torch.ones(4) * step)
print("last", y.tolist(), "slots", slots)
