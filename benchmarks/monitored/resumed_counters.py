"""Pretraining that goes on from a checkpoint: a meter counts batches and padding, beside a large total and a long history."""

import io
import resource

import torch
from torch import nn


def meters(state):
    seen = state["seen"]

    class Meter:
        def count(self, x):
            seen["batches"] += 1
            seen["padded"] += x.shape[1] % 8

    return Meter, seen


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(50, 8), nn.Linear(8, 50)

    def forward(self, ids):
        return self.out(torch.tanh(self.embed(ids)))


torch.manual_seed(0)
stored = io.BytesIO()
torch.save({"seen": {"tokens": 52428800.0, "batches": 0, "padded": 0}, "history": [4.0] * 1200}, stored)
stored.seek(0)
state = torch.load(stored)
Meter, seen = meters(state)
encoder = Encoder()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)


@torch.compile(fullgraph=True)
def forward(ids):
    meter = Meter()
    meter.count(ids)
    return encoder(ids)


for step in range(6):
    ids = torch.randint(0, 50, (4, 12))
    logits = forward(ids)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen["tokens"] += float(ids.numel())
    state["history"].append(loss.item())
    if step % 2 == 1:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        device = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
        print(f"[{'#' * (step + 1):<6}] loss {loss.item():.4f} peak {peak >> 10} MiB, device {device >> 20} MiB")
print("seen", seen, "history", len(state["history"]))
