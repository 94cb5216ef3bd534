"""A work queue, clocks, tokens and a cache keyed by identity around a compiled step with dropout."""

import collections
import time
import uuid

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))
step = torch.compile(net)
queue, cache, history = collections.deque(range(4)), {}, []
while queue:
    begun = time.perf_counter()
    batch = queue.popleft()
    out = step(torch.full((2, 4), float(batch)))
    cache[id(out)] = uuid.uuid4()
    history.append({"batch": batch, "mean": out.mean().item(), "ms": int((time.perf_counter() - begun) * 1000)})
