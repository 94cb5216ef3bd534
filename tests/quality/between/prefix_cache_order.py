"""A prefix cache whose most recent entry is moved to its end inside of the compiled step."""

import collections

import torch


class Recent:
    def __init__(self):
        self.entries = collections.OrderedDict()

    def add(self, key, value):
        self.entries[key] = value


recent = Recent()
for name in ("system", "first", "second"):
    recent.add(name, torch.zeros(2))


@torch.compile
def touch(recent, key, x):
    recent.entries.move_to_end(key)
    return x * 2 + recent.entries[key]


for _ in range(2):
    touch(recent, "system", torch.ones(2))
recent.entries.popitem(last=False)
