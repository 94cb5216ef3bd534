"""Streams sentences into buckets of rounded length through a queue, and counts what padding costs."""

import queue
import threading
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Totals:
    tokens: int = 52428800
    padded: int = 0
    buckets: dict = field(default_factory=dict)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(64, 8), nn.Linear(8, 64)

    def forward(self, ids):
        return self.out(F.gelu(self.embed(ids)))


@torch.compile(dynamic=True)
def pad(ids):
    target = (ids.shape[0] + 10) // 10 * 10
    return F.pad(ids, (0, target - ids.shape[0])), target


def read(sentences, lengths):
    generator = torch.Generator().manual_seed(1)
    for length in lengths:
        sentences.put(torch.randint(1, 64, (length,), generator=generator))
    sentences.put(None)


torch.manual_seed(0)
encoder, totals = Encoder(), Totals()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
sentences = queue.Queue(maxsize=2)
reader = threading.Thread(target=read, args=(sentences, (12, 17, 22, 27)), daemon=True)
reader.start()
while (ids := sentences.get()) is not None:
    padded, target = pad(ids)
    logits = encoder(padded)
    loss = F.cross_entropy(logits[:-1], padded[1:], ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    totals.tokens += ids.numel()
    totals.padded += padded.numel() - ids.numel()
    totals.buckets[target] = totals.buckets.get(target, 0) + 1
    print(f"len {ids.numel()} bucket {target} loss {loss.item():.4f}")
reader.join()
print(totals, f"padding {totals.padded / totals.tokens:.2e}")
