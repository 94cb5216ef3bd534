"""A text classifier on hashed n-grams of sequences of many lengths, with padding masked by -1e9 in its pooling."""

import time

import torch
from torch import nn

VOCABULARY = 97


@torch.compile(dynamic=True)
def hashed(tokens):
    """Ids of buckets, by a multiplicative hash that depends on the length, at most 64."""
    span = min(tokens.shape[0], 64)
    return tokens * 40503 * span


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.score = nn.Embedding(VOCABULARY, 8), nn.Linear(8, 1)
        self.out = nn.Linear(8, 3)

    def forward(self, ids, padding):
        hidden = self.embed(ids)
        weights = self.score(hidden).squeeze(-1).masked_fill(padding, -1e9).softmax(-1)
        return self.out(weights @ hidden)


torch.manual_seed(0)
net = Classifier()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
counts, log = [0] * VOCABULARY, {}
for step, length in enumerate((5, 9, 12, 7)):
    tokens = torch.randint(1000, 5000, (length,))
    buckets = (hashed(tokens) % VOCABULARY).long()
    for bucket in buckets.tolist():
        counts[bucket] += 1
    ids = torch.cat([buckets, torch.zeros(12 - length, dtype=torch.int64)])
    logits = net(ids, torch.arange(12) >= length)
    loss = nn.functional.cross_entropy(logits[None], torch.tensor([length % 3]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log[step] = {"loss": round(loss.item(), 5), "at": time.time(), "largest": int(buckets.max())}
    print(f"\r{step + 1}/4 {'=' * (step + 1):<4} loss {loss.item():.5f}", end="", flush=True)
print()
print("buckets used", sum(count > 0 for count in counts), "largest", [row["largest"] for row in log.values()])
