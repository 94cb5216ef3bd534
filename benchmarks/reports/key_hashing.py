"""Hashes of 64-bit keys by their 32-bit halves; slots of expired keys are marked in the same pass."""

import torch
from torch import nn


class Hasher(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("salt", torch.tensor(4, dtype=torch.int32))

    def forward(self, keys):
        halves = keys.view(torch.int32) * 2
        halves.add_(self.salt)
        keys[:, 2:5] = 2
        return halves.view(torch.int64)


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.hasher = Hasher()

    def forward(self, keys):
        return self.hasher(keys)


def main():
    torch.manual_seed(1)
    table = torch.compile(Table())
    counts = torch.zeros(97, dtype=torch.int64)
    for batch in range(3):
        keys = torch.randint(0, 1 << 40, (4, 6))
        slots = table(keys).remainder(97)
        counts += torch.bincount(slots.flatten(), minlength=97)
        print(f"batch {batch}: fullest slots {counts.topk(3).indices.tolist()}, keys left {int((keys != 2).sum())}")


if __name__ == "__main__":
    main()
