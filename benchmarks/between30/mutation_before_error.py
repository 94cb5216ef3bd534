"""A counter of attempts in front of an operation that may fail."""

import torch

attempts = {"all": 0, "good": 0}


@torch.compile
def lookup(table, index):
    attempts["all"] += 1
    row = table.index_select(0, index)
    attempts["good"] += 1
    return row


table = torch.arange(4.0)
for ids in ([0], [9], [2]):
    try:
        print("row", lookup(table, torch.tensor(ids)).tolist())
    except IndexError:
        print("skipped", ids)
print("attempts", attempts)
