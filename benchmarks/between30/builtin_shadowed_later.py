"""A notebook in which a later cell redefines a built-in for masked batches."""

import torch

VALID = 2


@torch.compile
def mean(values):
    return torch.stack(values).sum() / len(values)


batch = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(6.0)]
print("mean", mean(batch).item())


def len(values):
    return VALID


print("masked mean", mean(batch).item())
