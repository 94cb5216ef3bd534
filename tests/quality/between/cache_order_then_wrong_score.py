"""A prefix cache that loses its order in the compiled step, and behind it a score with a wrong kernel."""

import collections

import torch
from torch._inductor import config

config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
entries = collections.OrderedDict((name, torch.ones(2)) for name in ("system", "first", "second"))


@torch.compile
def touch(entries, key, x):
    entries.move_to_end(key)
    return x + entries[key]


@torch.compile
def score(x):
    return torch.relu(x - 1) * 2


x = touch(entries, "system", torch.ones(2))
for _ in range(2):
    score(x - torch.tensor([3.0, 1.0]))
