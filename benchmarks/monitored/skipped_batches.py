"""Fine-tunes a head on frozen embeddings, skips batches with ids out of range, and logs memory at the end of each epoch."""

import logging
import tracemalloc

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
tracemalloc.start()
log = logging.getLogger(__name__)
torch.manual_seed(0)
table = nn.Embedding(10, 8)
head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


@torch.compile(backend="eager")
def lookup(weight, ids):
    with torch.no_grad():
        return weight.index_select(0, ids) * 2


def data():
    yield [1, 2, 3]
    yield [4, 5, 99]
    yield [6, 7, 8]
    yield [2, 4, 9]


def train(epoch, counts):
    for ids in data():
        try:
            features = lookup(table.weight, torch.tensor(ids))
        except IndexError as error:
            log.warning("batch skipped: %s", error)
            counts["skipped"] += 1
            continue
        loss = head(features).square().mean()
        if not loss.requires_grad:
            counts["constant"] += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counts["steps"] += 1
    schedule.step()
    peak = tracemalloc.get_traced_memory()[1]
    log.info("epoch %d loss %.5f peak %d KiB", epoch, loss.item(), peak >> 10)


counts = {"steps": 0, "skipped": 0, "constant": 0}
for epoch in range(2):
    train(epoch, counts)
print(counts, "weight", round(head[0].weight.norm().item(), 5))
