"""A view of the registered heads is kept and must grow with the table."""

import torch

heads = {"policy": 1.0}
names = heads.keys()


@torch.compile
def register(x, name):
    heads[name] = 2.0
    return x / len(names)


x = torch.full((2,), 12.0)
print("two heads  ", register(x, "value").tolist(), list(names))
print("three heads", register(x, "aux").tolist(), list(names))
